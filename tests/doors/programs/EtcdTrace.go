// Every message of a program that uses etcd's client in Go, as lines: to be compared between two servers.
//
//	EtcdTrace ENDPOINT
//
// The program does one thing after the other, so its calls and their answers have one order. A stream has its messages
// in a block of its own. What tells one cluster from another is masked; revisions are not, so the servers begin empty.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const waitS = 20

var masked = map[string]bool{
	"clusterId": true, "memberId": true, "raftTerm": true, "dbSize": true, "dbSizeInUse": true, "raftIndex": true,
	"raftAppliedIndex": true, "leader": true, "storageVersion": true,
	"peerURLs": true, "clientURLs": true, "hash": true,
}

// The store of the door has no quota of its own, and no version that it could be taken back to.
var absent = map[string]bool{"dbSizeQuota": true, "downgradeInfo": true}

// What was said in one call, in order.
type block struct {
	lock  sync.Mutex
	lines []string
}

var (
	blocks []*block
	lock   sync.Mutex
	ctx    = context.Background()
)

func begin(method string) *block {
	one := &block{lines: []string{"call " + method}}
	lock.Lock()
	defer lock.Unlock()
	blocks = append(blocks, one)
	return one
}

func (one *block) say(sign string, method string, message any) {
	text, err := protojson.Marshal(message.(proto.Message))
	if err != nil {
		panic(err)
	}
	var parsed any
	if err := json.Unmarshal(text, &parsed); err != nil {
		panic(err)
	}
	hide(method, parsed)
	plain, err := json.Marshal(parsed) // keys in order, one way to write it
	if err != nil {
		panic(err)
	}
	one.add(sign + " " + string(plain))
}

func (one *block) add(line string) {
	one.lock.Lock()
	defer one.lock.Unlock()
	one.lines = append(one.lines, line)
}

func (one *block) end(err error) {
	if err != nil {
		one.add(fmt.Sprintf("! %s %s", status.Code(err), status.Convert(err).Message()))
	}
}

func hide(method string, value any) {
	switch at := value.(type) {
	case map[string]any:
		for name, one := range at {
			isTime := name == "TTL" && strings.HasSuffix(method, "LeaseTimeToLive")
			isOwn := strings.HasSuffix(method, "Status") && name == "version"
			isMember := strings.HasSuffix(method, "MemberList") && (name == "name" || name == "ID")
			if absent[name] {
				delete(at, name)
			} else if masked[name] || isTime || isOwn || isMember {
				at[name] = "*"
			} else {
				hide(method, one)
			}
		}
	case []any:
		for _, one := range at {
			hide(method, one)
		}
	}
}

func unary(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	one := begin(method)
	one.say(">", method, request)
	err := invoke(ctx, method, request, answer, connection, options...)
	if err == nil {
		one.say("<", method, answer)
	}
	one.end(err)
	return err
}

type stream struct {
	grpc.ClientStream
	method string
	block  *block
}

func (s *stream) SendMsg(message any) error {
	s.block.say(">", s.method, message)
	return s.ClientStream.SendMsg(message)
}

func (s *stream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil {
		s.block.say("<", s.method, message)
	}
	return err
}

func streamed(ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	under, err := open(ctx, description, connection, method, options...)
	if err != nil {
		return nil, err
	}
	return &stream{under, method, begin(method)}, nil
}

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func connect() *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{os.Args[1]},
		DialTimeout: waitS * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(streamed),
		},
	})
	must(err)
	return client
}

// Refusals are a part of the trace: their errors are looked at there.
func keys(client *clientv3.Client) {
	put := func(key, value string, options ...clientv3.OpOption) { _, _ = client.Put(ctx, key, value, options...) }
	get := func(key string, options ...clientv3.OpOption) { _, _ = client.Get(ctx, key, options...) }
	get("none")
	put("k", "1")
	put("k", "2", clientv3.WithPrevKV())
	put("k", "", clientv3.WithIgnoreValue())
	put("none", "", clientv3.WithIgnoreValue())
	put("none", "x", clientv3.WithIgnoreLease())
	put("k", "x", clientv3.WithLease(99))
	put("", "x")
	for _, name := range []string{"b", "a", "c", "ab"} {
		put("p/"+name, strings.ToUpper(name))
	}
	put("p/a", "Z")
	get("p/", clientv3.WithPrefix())
	get("p/", clientv3.WithPrefix(), clientv3.WithLimit(2))
	get("p/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	get("p/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	get("p/", clientv3.WithPrefix(), clientv3.WithSerializable())
	get("p/", clientv3.WithFromKey())
	get("", clientv3.WithFromKey(), clientv3.WithLimit(1))
	for _, target := range []clientv3.SortTarget{
		clientv3.SortByKey, clientv3.SortByVersion, clientv3.SortByCreateRevision, clientv3.SortByModRevision, clientv3.SortByValue,
	} {
		get("p/", clientv3.WithPrefix(), clientv3.WithSort(target, clientv3.SortDescend))
		get("p/", clientv3.WithPrefix(), clientv3.WithSort(target, clientv3.SortAscend), clientv3.WithLimit(2))
	}
	get("p/", clientv3.WithPrefix(), clientv3.WithMinModRev(6), clientv3.WithMaxModRev(7))
	get("p/", clientv3.WithPrefix(), clientv3.WithMinCreateRev(6))
	get("p/", clientv3.WithPrefix(), clientv3.WithMaxCreateRev(6), clientv3.WithLimit(1))
	get("p/a", clientv3.WithRev(6))
	get("p/a", clientv3.WithRev(3))
	get("p/a", clientv3.WithRev(1000))
	remove := func(key string, options ...clientv3.OpOption) { _, _ = client.Delete(ctx, key, options...) }
	remove("none")
	remove("p/c", clientv3.WithPrevKV())
	remove("p/", clientv3.WithRange("p/b"))
	get("p/", clientv3.WithPrefix())
	remove("p/", clientv3.WithPrefix(), clientv3.WithPrevKV())
	remove("p/", clientv3.WithPrefix())
}

func transactions(client *clientv3.Client) {
	txn := func(compares []clientv3.Cmp, then, otherwise []clientv3.Op) {
		_, _ = client.Txn(ctx).If(compares...).Then(then...).Else(otherwise...).Commit()
	}
	always := []clientv3.Cmp(nil)
	put, get, remove := clientv3.OpPut, clientv3.OpGet, clientv3.OpDelete
	txn(always, nil, nil)
	txn(always, []clientv3.Op{get("k"), get("none")}, nil)
	txn(always, []clientv3.Op{put("t", "1"), get("t"), put("u", "1"), get("t", clientv3.WithRange("v"))}, nil)
	txn(always, []clientv3.Op{put("t", "1"), put("t", "2")}, nil)
	txn(always, []clientv3.Op{remove("t"), get("t"), remove("none")}, nil)
	txn(always, []clientv3.Op{put("t", "3"), remove("t")}, nil)
	txn(always, []clientv3.Op{put("t", "3", clientv3.WithPrevKV()), put("u", "2", clientv3.WithPrevKV())}, nil)
	for _, compare := range []clientv3.Cmp{
		clientv3.Compare(clientv3.Value("t"), "=", "3"), clientv3.Compare(clientv3.Value("t"), "<", "2"),
		clientv3.Compare(clientv3.Value("none"), "!=", ""), clientv3.Compare(clientv3.Version("none"), "=", 0),
		clientv3.Compare(clientv3.Version("u"), ">", 1), clientv3.Compare(clientv3.CreateRevision("u"), "<", 1000),
		clientv3.Compare(clientv3.ModRevision("u"), "!=", 1), clientv3.Compare(clientv3.LeaseValue("u"), "=", 0),
		clientv3.Compare(clientv3.CreateRevision("t"), ">", 0).WithRange("v"),
	} {
		txn([]clientv3.Cmp{compare}, []clientv3.Op{get("t")}, []clientv3.Op{put("else", "1")})
	}
	nested := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("n"), "=", 0)},
		[]clientv3.Op{put("n", "1"), get("n")}, []clientv3.Op{remove("n")})
	txn(always, []clientv3.Op{get("n"), nested, get("n")}, nil)
	txn(always, []clientv3.Op{nested, put("m", "1", clientv3.WithLease(99))}, nil)
	txn(always, []clientv3.Op{nested}, nil)
	txn(always, []clientv3.Op{get("k", clientv3.WithRev(1000))}, nil)
}

func leases(client *clientv3.Client) {
	raw := clientv3.RetryLeaseClient(client)

	grant := func(id, ttl int64) {
		_, _ = raw.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	}
	grant(7001, 60)
	grant(7001, 60)
	grant(7002, 10_000_000_000)
	grant(7002, 600)
	_, _ = client.Put(ctx, "l/1", "x", clientv3.WithLease(7001))
	_, _ = client.Put(ctx, "l/2", "y", clientv3.WithLease(7001))
	_, _ = client.Put(ctx, "l/2", "z", clientv3.WithIgnoreLease())
	_, _ = client.TimeToLive(ctx, 7001)
	_, _ = client.TimeToLive(ctx, 7001, clientv3.WithAttachedKeys())
	_, _ = client.TimeToLive(ctx, 99)
	_, _ = client.KeepAliveOnce(ctx, 7001)
	_, _ = client.KeepAliveOnce(ctx, 99)
	_, _ = client.Leases(ctx)
	_, _ = client.Put(ctx, "l/1", "x")
	_, _ = client.Revoke(ctx, 7001)
	_, _ = client.Revoke(ctx, 7001)
	_, _ = client.Get(ctx, "l/", clientv3.WithPrefix())
	_, _ = client.Revoke(ctx, 7002)
}

// Each event is waited for before the next change, so that no two share an answer.
func watches(client *clientv3.Client) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	next := func(channel clientv3.WatchChan) clientv3.WatchResponse {
		select {
		case answer := <-channel:
			return answer
		case <-time.After(waitS * time.Second):
			must(errors.New("no event"))
			return clientv3.WatchResponse{}
		}
	}
	one := client.Watch(watching, "w", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	next(one)
	put, err := client.Put(ctx, "w/1", "a")
	must(err)
	next(one)
	_, _ = client.Put(ctx, "w/1", "b")
	next(one)
	_, _ = client.Delete(ctx, "w/1")
	next(one)
	_, _ = client.Txn(ctx).Then(clientv3.OpPut("w/1", "c"), clientv3.OpPut("w/2", "d"), clientv3.OpDelete("none")).Commit()
	next(one)
	_, _ = client.Delete(ctx, "w", clientv3.WithPrefix())
	next(one)
	must(client.RequestProgress(watching))
	next(one)
	// It catches up to the newest revision, so that there is one header that its answer may have.
	old := client.Watch(watching, "w", clientv3.WithPrefix(), clientv3.WithRev(put.Header.Revision))
	for seen := 0; seen < 7; {
		seen += len(next(old).Events)
	}
	deletes := client.Watch(watching, "w/1", clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	next(deletes)
	_, _ = client.Put(ctx, "w/1", "e")
	next(one)
	next(old)
	_, _ = client.Delete(ctx, "w/1")
	next(one)
	next(old)
	next(deletes)
}

func recipes(client *clientv3.Client) {
	raw := clientv3.RetryLeaseClient(client)
	for _, id := range []int64{8001, 8002} {
		_, err := raw.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: 600})
		must(err)
	}
	locks := v3lockpb.NewLockClient(client.ActiveConnection())
	held, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("lock"), Lease: 8001})
	must(err)
	_, _ = locks.Unlock(ctx, &v3lockpb.UnlockRequest{Key: held.Key})
	_, _ = locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("lock"), Lease: 99})
	elections := v3electionpb.NewElectionClient(client.ActiveConnection())
	_, _ = elections.Leader(ctx, &v3electionpb.LeaderRequest{Name: []byte("election")})
	led, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("election"), Lease: 8001, Value: []byte("a")})
	must(err)
	_, _ = elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: led.Leader, Value: []byte("b")})
	_, _ = elections.Leader(ctx, &v3electionpb.LeaderRequest{Name: []byte("election")})
	_, _ = elections.Resign(ctx, &v3electionpb.ResignRequest{Leader: led.Leader})
	_, _ = elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: led.Leader, Value: []byte("c")})
	session, err := concurrency.NewSession(client, concurrency.WithLease(8002))
	must(err)
	mutex := concurrency.NewMutex(session, "mutex")
	must(mutex.Lock(ctx))
	must(mutex.Unlock(ctx))
	election := concurrency.NewElection(session, "leads")
	must(election.Campaign(ctx, "a"))
	must(election.Proclaim(ctx, "b"))
	_, err = election.Leader(ctx)
	must(err)
	must(election.Resign(ctx))
	_, err = concurrency.NewSTM(client, func(stm concurrency.STM) error {
		stm.Put("stm/b", stm.Get("stm/a")+"x")
		return nil
	})
	must(err)
	session.Orphan()
	_, _ = client.Revoke(ctx, 8001)
	_, _ = client.Revoke(ctx, 8002)
}

func compaction(client *clientv3.Client) {
	_, _ = client.Compact(ctx, 20)
	_, _ = client.Compact(ctx, 20)
	_, _ = client.Compact(ctx, 5)
	_, _ = client.Compact(ctx, 100_000)
	_, _ = client.Compact(ctx, 21, clientv3.WithCompactPhysical())
	_, _ = client.Get(ctx, "k", clientv3.WithRev(19))
	_, _ = client.Get(ctx, "k", clientv3.WithRev(21))
}

func maintenance(client *clientv3.Client) {
	_, _ = client.MemberList(ctx)
	_, _ = client.Status(ctx, os.Args[1])
	_, _ = client.AlarmList(ctx)
	_, _ = client.HashKV(ctx, os.Args[1], 0)
	_, _ = client.HashKV(ctx, os.Args[1], 100_000)
	_, _ = client.MoveLeader(ctx, 77)
}

func main() {
	for _, part := range []struct {
		name string
		run  func(*clientv3.Client)
	}{
		{"keys", keys}, {"transactions", transactions}, {"leases", leases}, {"watches", watches}, {"recipes", recipes},
		{"compaction", compaction}, {"maintenance", maintenance},
	} {
		blocks = nil
		client := connect()
		part.run(client)
		must(client.Close())
		fmt.Println("part", part.name)
		// Streams that a library keeps alive beside are none of the order.
		lock.Lock()
		said := make([]string, 0, len(blocks))
		for _, one := range blocks {
			one.lock.Lock()
			if !strings.HasSuffix(one.lines[0], "LeaseKeepAlive") || part.name == "leases" {
				said = append(said, strings.Join(one.lines, "\n"))
			}
			one.lock.Unlock()
		}
		lock.Unlock()
		if part.name == "watches" {
			sort.Strings(said)
		}
		for _, text := range said {
			fmt.Println(text)
		}
	}
}
