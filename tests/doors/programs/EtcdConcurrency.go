// etcd's own recipes (go.etcd.io/etcd/client/v3/concurrency) on the servers that the first argument names.
//
// Each check is a line "ok NAME" or "failed NAME: why". The program ends with 1 if one failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var ctx = context.Background()

func connect() *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 10 * time.Second})
	if err != nil {
		fmt.Println("failed connect:", err)
		os.Exit(1)
	}
	return client
}

func session(client *clientv3.Client) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(5))
}

// Many clients count under one lock, each by a read and a write.
func mutex() error {
	const clients, rounds = 5, 8
	var group sync.WaitGroup
	failures := make(chan error, clients)
	for i := 0; i < clients; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			client := connect()
			defer client.Close()
			own, err := session(client)
			if err != nil {
				failures <- err
				return
			}
			defer own.Close()
			lock := concurrency.NewMutex(own, "go/mutex")
			for round := 0; round < rounds; round++ {
				if err := lock.Lock(ctx); err != nil {
					failures <- err
					return
				}
				found, err := client.Get(ctx, "go/count")
				if err != nil {
					failures <- err
					return
				}
				count := 0
				if len(found.Kvs) > 0 {
					count, _ = strconv.Atoi(string(found.Kvs[0].Value))
				}
				fenced, err := client.Txn(ctx).If(lock.IsOwner()).Then(clientv3.OpPut("go/count", strconv.Itoa(count+1))).Commit()
				if err != nil || !fenced.Succeeded {
					failures <- fmt.Errorf("a write of the owner: %v", err)
					return
				}
				if err := lock.Unlock(ctx); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(failures)
	for err := range failures {
		return err
	}
	client := connect()
	defer client.Close()
	found, err := client.Get(ctx, "go/count")
	if err != nil || string(found.Kvs[0].Value) != strconv.Itoa(clients*rounds) {
		return fmt.Errorf("counted %v, %v", found, err)
	}
	return nil
}

func tryLock() error {
	client := connect()
	defer client.Close()
	one, err := session(client)
	if err != nil {
		return err
	}
	two, err := session(client)
	if err != nil {
		return err
	}
	held, wanted := concurrency.NewMutex(one, "go/try"), concurrency.NewMutex(two, "go/try")
	if err := held.TryLock(ctx); err != nil {
		return err
	}
	if err := wanted.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		return fmt.Errorf("a lock that is held: %v", err)
	}
	if err := one.Close(); err != nil {
		return err
	}
	if err := wanted.TryLock(ctx); err != nil {
		return err
	}
	return two.Close()
}

// The leader is seen by an observer, resigns, and the next one leads.
func election() error {
	client := connect()
	defer client.Close()
	one, err := session(client)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := session(client)
	if err != nil {
		return err
	}
	defer two.Close()
	first, second := concurrency.NewElection(one, "go/election"), concurrency.NewElection(two, "go/election")
	if _, err := first.Leader(ctx); !errors.Is(err, concurrency.ErrElectionNoLeader) {
		return fmt.Errorf("no leader yet: %v", err)
	}
	if err := first.Campaign(ctx, "a"); err != nil {
		return err
	}
	observing, stop := context.WithCancel(ctx)
	defer stop()
	seen := second.Observe(observing)
	if told := <-seen; string(told.Kvs[0].Value) != "a" {
		return fmt.Errorf("saw %v", told)
	}
	won := make(chan error, 1)
	go func() { won <- second.Campaign(ctx, "b") }()
	select {
	case err := <-won:
		return fmt.Errorf("two lead: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := first.Proclaim(ctx, "a2"); err != nil {
		return err
	}
	if told := <-seen; string(told.Kvs[0].Value) != "a2" {
		return fmt.Errorf("saw %v", told)
	}
	if err := first.Resign(ctx); err != nil {
		return err
	}
	if err := <-won; err != nil {
		return err
	}
	if told := <-seen; string(told.Kvs[0].Value) != "b" {
		return fmt.Errorf("saw %v", told)
	}
	if err := first.Proclaim(ctx, "a3"); !errors.Is(err, concurrency.ErrElectionNotLeader) {
		return fmt.Errorf("one that resigned: %v", err)
	}
	return second.Resign(ctx)
}

// A session whose client is gone ends, and takes its lock along.
func expiry() error {
	client, other := connect(), connect()
	defer other.Close()
	own, err := session(client)
	if err != nil {
		return err
	}
	if err := concurrency.NewMutex(own, "go/expiry").Lock(ctx); err != nil {
		return err
	}
	own.Orphan()
	client.Close()
	next, err := session(other)
	if err != nil {
		return err
	}
	defer next.Close()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return concurrency.NewMutex(next, "go/expiry").Lock(limited)
}

// Transfers between accounts keep the sum.
func transactions() error {
	const accounts, clients, rounds = 4, 4, 10
	client := connect()
	defer client.Close()
	name := func(i int) string { return fmt.Sprintf("go/account/%d", i%accounts) }
	for i := 0; i < accounts; i++ {
		if _, err := client.Put(ctx, name(i), "100"); err != nil {
			return err
		}
	}
	var group sync.WaitGroup
	failures := make(chan error, clients)
	for i := 0; i < clients; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for round := 0; round < rounds; round++ {
				from, to := name(i+round), name(i+round+1)
				_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
					left, _ := strconv.Atoi(stm.Get(from))
					right, _ := strconv.Atoi(stm.Get(to))
					stm.Put(from, strconv.Itoa(left-1))
					stm.Put(to, strconv.Itoa(right+1))
					return nil
				})
				if err != nil {
					failures <- err
					return
				}
			}
		}(i)
	}
	group.Wait()
	close(failures)
	for err := range failures {
		return err
	}
	found, err := client.Get(ctx, "go/account/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	sum := 0
	for _, kv := range found.Kvs {
		value, _ := strconv.Atoi(string(kv.Value))
		sum += value
	}
	if sum != accounts*100 {
		return fmt.Errorf("the sum is %d", sum)
	}
	return nil
}

// Every change comes once and in order, over many watches on one stream, with progress.
func watches() error {
	const keys, changes = 20, 30
	client := connect()
	defer client.Close()
	begun, err := client.Put(ctx, "go/watch/begin", "")
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var channels []clientv3.WatchChan
	for i := 0; i < keys; i++ {
		channels = append(channels, client.Watch(watching, fmt.Sprintf("go/watch/%d", i), clientv3.WithRev(begun.Header.Revision)))
	}
	for change := 0; change < changes; change++ {
		for i := 0; i < keys; i++ {
			if _, err := client.Put(ctx, fmt.Sprintf("go/watch/%d", i), strconv.Itoa(change)); err != nil {
				return err
			}
		}
	}
	for i, channel := range channels {
		for next := 0; next < changes; {
			for _, event := range (<-channel).Events {
				if string(event.Kv.Value) != strconv.Itoa(next) {
					return fmt.Errorf("watch %d: %s after %d changes", i, event.Kv.Value, next)
				}
				next++
			}
		}
	}
	if err := client.RequestProgress(watching); err != nil {
		return err
	}
	told := <-channels[0]
	if !told.IsProgressNotify() || told.Header.Revision < begun.Header.Revision+keys*changes {
		return fmt.Errorf("progress %v", told)
	}
	return nil
}

func main() {
	failed := false
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"mutex", mutex}, {"try lock", tryLock}, {"election", election}, {"expiry", expiry},
		{"transactions", transactions}, {"watches", watches},
	} {
		if err := check.run(); err != nil {
			failed = true
			fmt.Printf("failed %s: %v\n", check.name, err)
		} else {
			fmt.Println("ok", check.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}
