// Kubernetes' way with etcd: the client library that kube-apiserver asks by, and a cache that a watch keeps.
//
//	EtcdKubernetes ENDPOINT,ENDPOINT,... OBJECTS
//
// Objects are created, listed in pages, updated and deleted, each at the revision that was seen. A watch keeps a cache
// all the time, as kube-apiserver's does; at the end it equals a list. A line for each check, with its time.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

const (
	prefix  = "/registry/configmaps/"
	workers = 32
	page    = 500
	bytesOf = 600
)

var (
	ctx    = context.Background()
	client *kubernetes.Client
)

// All objects as a watch told them, and the revision up to which it did.
type cache struct {
	lock     sync.Mutex
	changed  *sync.Cond
	objects  map[string]*mvccpb.KeyValue
	revision int64
	created  int
	updated  int
	deleted  int
	failure  error
}

func name(i int) string { return fmt.Sprintf("%sdefault/object-%05d", prefix, i) }

func object(i, version int) []byte {
	text := fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"name":"object-%05d"},"data":{"version":"%d"}}`, i, version)
	return append([]byte(text), bytes.Repeat([]byte("x"), bytesOf-len(text))...)
}

func newCache(revision int64) *cache {
	kept := &cache{objects: map[string]*mvccpb.KeyValue{}, revision: revision}
	kept.changed = sync.NewCond(&kept.lock)
	options := []clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithRev(revision + 1), clientv3.WithPrevKV(), clientv3.WithProgressNotify(),
	}
	go func() {
		for answer := range client.Watch(clientv3.WithRequireLeader(ctx), prefix, options...) {
			kept.take(answer)
		}
		kept.fail(errors.New("the watch ended"))
	}()
	return kept
}

func (kept *cache) fail(err error) {
	kept.lock.Lock()
	defer kept.lock.Unlock()
	if kept.failure == nil {
		kept.failure = err
	}
	kept.changed.Broadcast()
}

func (kept *cache) take(answer clientv3.WatchResponse) {
	if err := answer.Err(); err != nil {
		kept.fail(err)
		return
	}
	for _, event := range answer.Events {
		if err := kept.apply(event); err != nil {
			kept.fail(err)
			return
		}
	}
	kept.lock.Lock()
	defer kept.lock.Unlock()
	if answer.IsProgressNotify() {
		kept.revision = max(kept.revision, answer.Header.Revision)
	}
	kept.changed.Broadcast()
}

func (kept *cache) apply(event *clientv3.Event) error {
	kept.lock.Lock()
	defer kept.lock.Unlock()
	key := string(event.Kv.Key)
	before := kept.objects[key]
	if event.Kv.ModRevision <= kept.revision {
		return fmt.Errorf("%s at %d after %d", key, event.Kv.ModRevision, kept.revision)
	}
	if event.IsCreate() != (before == nil) {
		return fmt.Errorf("%s at %d is created %v, and was there %v", key, event.Kv.ModRevision, event.IsCreate(), before)
	}
	if before != nil && (event.PrevKv == nil || event.PrevKv.ModRevision != before.ModRevision) {
		return fmt.Errorf("%s at %d: before it %v, not %v", key, event.Kv.ModRevision, event.PrevKv, before)
	}
	kept.revision = event.Kv.ModRevision
	switch {
	case event.Type == clientv3.EventTypeDelete:
		kept.deleted++
		delete(kept.objects, key)
		return nil
	case before == nil:
		kept.created++
	default:
		kept.updated++
	}
	kept.objects[key] = event.Kv
	return nil
}

// Until the cache has what its function wants.
func (kept *cache) wait(wanted func() bool) error {
	kept.lock.Lock()
	defer kept.lock.Unlock()
	for kept.failure == nil && !wanted() {
		kept.changed.Wait()
	}
	return kept.failure
}

// The same for every object, by many workers.
func forAll(count int, act func(i int) error) error {
	var group sync.WaitGroup
	next, failures := make(chan int), make(chan error, workers)
	for w := 0; w < workers; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range next {
				if err := act(i); err != nil {
					failures <- fmt.Errorf("object %d: %w", i, err)
					for range next {
					}
					return
				}
			}
		}()
	}
	for i := 0; i < count; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	close(failures)
	return <-failures
}

func create(i int) error {
	put, err := client.Kubernetes.OptimisticPut(ctx, name(i), object(i, 0), 0, kubernetes.PutOptions{})
	if err != nil || !put.Succeeded {
		return fmt.Errorf("created: %v, %w", put, err)
	}
	return nil
}

func createTwice(i int) error {
	put, err := client.Kubernetes.OptimisticPut(ctx, name(i), object(i, 7), 0, kubernetes.PutOptions{GetOnFailure: true})
	if err != nil {
		return err
	}
	if put.Succeeded || put.KV == nil || !bytes.Equal(put.KV.Value, object(i, 0)) {
		return fmt.Errorf("created twice: %v", put)
	}
	return nil
}

// Reads it, writes it at the revision that was seen, and fails to write it there once more.
func update(i int) error {
	got, err := client.Kubernetes.Get(ctx, name(i), kubernetes.GetOptions{})
	if err != nil || got.KV == nil {
		return fmt.Errorf("got: %v, %w", got, err)
	}
	revision := got.KV.ModRevision
	put, err := client.Kubernetes.OptimisticPut(ctx, name(i), object(i, 1), revision, kubernetes.PutOptions{})
	if err != nil || !put.Succeeded {
		return fmt.Errorf("updated: %v, %w", put, err)
	}
	options := kubernetes.PutOptions{GetOnFailure: true}
	again, err := client.Kubernetes.OptimisticPut(ctx, name(i), object(i, 2), revision, options)
	if err != nil || again.Succeeded || again.KV.ModRevision != put.Revision {
		return fmt.Errorf("updated an old one: %v, %w", again, err)
	}
	return nil
}

func remove(i int) error {
	wrong, err := client.Kubernetes.OptimisticDelete(ctx, name(i), 1, kubernetes.DeleteOptions{GetOnFailure: true})
	if err != nil || wrong.Succeeded || wrong.KV == nil {
		return fmt.Errorf("deleted an old one: %v, %w", wrong, err)
	}
	right, err := client.Kubernetes.OptimisticDelete(ctx, name(i), wrong.KV.ModRevision, kubernetes.DeleteOptions{})
	if err != nil || !right.Succeeded {
		return fmt.Errorf("deleted: %v, %w", right, err)
	}
	return nil
}

// Pages as of the first one's revision. between: what happens behind each page.
func list(revision int64, between func()) ([]*mvccpb.KeyValue, int64, error) {
	var all []*mvccpb.KeyValue
	options := kubernetes.ListOptions{Limit: page, Revision: revision}
	for {
		got, err := client.Kubernetes.List(ctx, prefix, options)
		if err != nil {
			return nil, 0, err
		}
		if options.Revision == 0 {
			options.Revision = got.Revision
		}
		all = append(all, got.Kvs...)
		if int64(len(got.Kvs)) == got.Count {
			return all, options.Revision, nil
		}
		options.Continue = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
		between()
	}
}

// A consistent read from the cache: a mark on the stream of the watch says that the cache is as new as the store.
func progress(kept *cache) error {
	put, err := client.Put(ctx, "/elsewhere", "")
	if err != nil {
		return err
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for asking.Err() == nil {
			_ = client.RequestProgress(clientv3.WithRequireLeader(ctx))
			select {
			case <-asking.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return kept.wait(func() bool { return kept.revision >= put.Header.Revision })
}

func same(kept *cache) error {
	all, _, err := list(0, func() {})
	if err != nil {
		return err
	}
	kept.lock.Lock()
	defer kept.lock.Unlock()
	if len(all) != len(kept.objects) {
		return fmt.Errorf("%d objects, %d in the cache", len(all), len(kept.objects))
	}
	for _, kv := range all {
		mine := kept.objects[string(kv.Key)]
		if mine == nil || mine.ModRevision != kv.ModRevision || mine.CreateRevision != kv.CreateRevision ||
			mine.Version != kv.Version || !bytes.Equal(mine.Value, kv.Value) {
			return fmt.Errorf("%s is %v, and %v in the cache", kv.Key, kv, mine)
		}
	}
	return nil
}

// As kube-apiserver's compactor: who moves a key on, compacts. Then what is older is told to be gone.
func compaction(old int64) error {
	const key = "compact_rev_key"
	now, err := client.KV.Get(ctx, key)
	if err != nil {
		return err
	}
	won, err := client.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), "=", 0)).Then(
		clientv3.OpPut(key, strconv.FormatInt(now.Header.Revision, 10))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || !won.Succeeded {
		return fmt.Errorf("the compactor's key: %v, %w", won, err)
	}
	if _, err := client.Compact(ctx, now.Header.Revision); err != nil {
		return err
	}
	if _, _, err := list(old, func() {}); !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("a list of old: %v", err)
	}
	limited, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	for answer := range client.Watch(limited, prefix, clientv3.WithPrefix(), clientv3.WithRev(old)) {
		if !errors.Is(answer.Err(), rpctypes.ErrCompacted) || answer.CompactRevision < now.Header.Revision {
			return fmt.Errorf("a watch from of old: %v", answer)
		}
		return nil
	}
	return errors.New("a watch from of old told nothing")
}

// Events of a cluster stand under leases.
func leased() error {
	lease, err := client.Grant(ctx, 3600)
	if err != nil {
		return err
	}
	for i := 0; i < 10; i++ {
		options := kubernetes.PutOptions{LeaseID: lease.ID}
		put, err := client.Kubernetes.OptimisticPut(ctx, fmt.Sprintf("/registry/events/%d", i), object(i, 0), 0, options)
		if err != nil || !put.Succeeded {
			return fmt.Errorf("an event: %v, %w", put, err)
		}
	}
	if _, err := client.Revoke(ctx, lease.ID); err != nil {
		return err
	}
	left, err := client.Kubernetes.Count(ctx, "/registry/events/", kubernetes.CountOptions{})
	if err != nil || left != 0 {
		return fmt.Errorf("%d events are left, %w", left, err)
	}
	return nil
}

func main() {
	objects, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Println("failed: OBJECTS", err)
		os.Exit(1)
	}
	client, err = kubernetes.New(clientv3.Config{
		Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 10 * time.Second,
	})
	if err != nil {
		fmt.Println("failed connect:", err)
		os.Exit(1)
	}
	var kept *cache
	var whole int64
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"begin a cache", func() error {
			_, revision, err := list(0, func() {})
			kept = newCache(revision)
			return err
		}},
		{"create", func() error { return forAll(objects, create) }},
		{"watch what was created", func() error { return kept.wait(func() bool { return kept.created == objects }) }},
		{"create again", func() error { return forAll(objects/10, createTwice) }},
		{"count", func() error {
			count, err := client.Kubernetes.Count(ctx, prefix, kubernetes.CountOptions{})
			if err == nil && count != int64(objects) {
				err = fmt.Errorf("%d", count)
			}
			return err
		}},
		{"list in pages, while objects change", func() error {
			changed := 0
			all, revision, err := list(0, func() {
				if err := update(objects - 1 - changed); err != nil {
					kept.fail(err)
				}
				changed++
			})
			whole = revision
			for i, kv := range all {
				if string(kv.Key) != name(i) || !bytes.Equal(kv.Value, object(i, 0)) {
					return fmt.Errorf("place %d of the list: %s, changed at %d", i, kv.Key, kv.ModRevision)
				}
			}
			if err == nil && (len(all) != objects || changed == 0) {
				err = fmt.Errorf("%d objects, %d changed meanwhile", len(all), changed)
			}
			return err
		}},
		{"list at once", func() error {
			all, err := client.Kubernetes.List(ctx, prefix, kubernetes.ListOptions{})
			if err == nil && len(all.Kvs) != objects {
				err = fmt.Errorf("%d objects", len(all.Kvs))
			}
			return err
		}},
		{"update", func() error { return forAll(objects, update) }},
		{"delete every second one", func() error {
			return forAll(objects/2, func(i int) error { return remove(2 * i) })
		}},
		{"watch what was deleted", func() error { return kept.wait(func() bool { return kept.deleted == objects/2 }) }},
		{"progress on the watch", func() error { return progress(kept) }},
		{"the cache equals a list", func() error { return same(kept) }},
		{"leases", leased},
		{"compaction", func() error { return compaction(whole) }},
		{"the cache goes on", func() error {
			if err := update(1); err != nil {
				return err
			}
			if err := progress(kept); err != nil {
				return err
			}
			return same(kept)
		}},
	} {
		begun := time.Now()
		if err := check.run(); err != nil {
			fmt.Printf("failed %s: %v\n", check.name, err)
			os.Exit(1)
		}
		fmt.Printf("ok %s %.3f\n", check.name, time.Since(begun).Seconds())
	}
}
