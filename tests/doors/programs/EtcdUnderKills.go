// etcd's package concurrency while servers are killed: a lock, an election and transactions, each with a recorder.
//
//	EtcdUnderKills ENDPOINT,ENDPOINT,... SECONDS
//
// Each holder of the lock and each leader counts in a key of its own kind, by a transaction that is fenced by the
// holder's own key. A watch from the first revision records every count: each comes once and in order, and the fence,
// which is the revision of the holder's key, never falls. Transfers between accounts keep the sum. What was
// acknowledged must be counted, and what failed may be.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	workers   = 4
	accounts  = 5
	holdsMax  = 20 // writes of a holder, then another has its turn
	sessionS  = 5
	requestMs = 5000
	drawnS    = 60 // until the end has settled
)

// What workers of one kind were told.
type tally struct {
	acknowledged, unsure, refused, turns atomic.Int64
}

func connect() *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(os.Args[1], ","),
		DialTimeout: 10 * time.Second,
	})
	if err != nil {
		fmt.Println("failed connect:", err)
		os.Exit(1)
	}
	return client
}

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestMs*time.Millisecond)
}

// A fence and the count that it wrote.
func value(fence int64, count int) string { return fmt.Sprintf("%d %d", fence, count) }

func parsed(text []byte) (int64, int) {
	var fence int64
	var count int
	fmt.Sscanf(string(text), "%d %d", &fence, &count)
	return fence, count
}

// Counts under a key of the caller. False: the caller holds no longer, or does not know.
func count(ctx context.Context, client *clientv3.Client, key string, owner clientv3.Cmp, fence int64, told *tally) bool {
	asked, cancel := limited(ctx)
	defer cancel()
	found, err := client.Get(asked, key)
	if err != nil {
		return false
	}
	last, revision := 0, int64(0)
	if len(found.Kvs) > 0 {
		_, last = parsed(found.Kvs[0].Value)
		revision = found.Kvs[0].ModRevision
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
	answer, err := client.Txn(asked).If(owner, unchanged).Then(clientv3.OpPut(key, value(fence, last+1))).Commit()
	if err != nil {
		told.unsure.Add(1)
		return false
	}
	if !answer.Succeeded {
		told.refused.Add(1)
		return false
	}
	told.acknowledged.Add(1)
	return true
}

// One session after another until the time is over; turn is asked for as long as a session lives.
func sessions(ctx context.Context, turn func(context.Context, *clientv3.Client, *concurrency.Session)) {
	client := connect()
	defer client.Close()
	for ctx.Err() == nil {
		own, err := concurrency.NewSession(client, concurrency.WithTTL(sessionS), concurrency.WithContext(ctx))
		if err != nil {
			continue
		}
		alive, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-own.Done():
			case <-alive.Done():
			}
			cancel()
		}()
		for alive.Err() == nil {
			turn(alive, client, own)
		}
		cancel()
		own.Orphan()
	}
}

func lock(ctx context.Context, told *tally) {
	sessions(ctx, func(alive context.Context, client *clientv3.Client, own *concurrency.Session) {
		mutex := concurrency.NewMutex(own, "kills/mutex")
		if err := mutex.Lock(alive); err != nil {
			return
		}
		told.turns.Add(1)
		fence := mutex.Header().Revision
		// Its own key, and not the answer, has the fence: the answer may come later.
		if found, err := client.Get(alive, mutex.Key()); err == nil && len(found.Kvs) == 1 {
			fence = found.Kvs[0].CreateRevision
			for hold := 0; hold < holdsMax && count(alive, client, "kills/locked", mutex.IsOwner(), fence, told); hold++ {
			}
		}
		_ = mutex.Unlock(alive)
	})
}

func lead(ctx context.Context, told *tally) {
	sessions(ctx, func(alive context.Context, client *clientv3.Client, own *concurrency.Session) {
		election := concurrency.NewElection(own, "kills/election")
		if err := election.Campaign(alive, fmt.Sprintf("%x", own.Lease())); err != nil {
			return
		}
		told.turns.Add(1)
		leads := clientv3.Compare(clientv3.CreateRevision(election.Key()), "=", election.Rev())
		for hold := 0; hold < holdsMax && count(alive, client, "kills/led", leads, election.Rev(), told); hold++ {
		}
		asked, cancel := limited(alive)
		defer cancel()
		_ = election.Resign(asked)
	})
}

// Moves one from an account to another, and counts its transfers beside.
func transfer(ctx context.Context, number int, told *tally) {
	client := connect()
	defer client.Close()
	draw := rand.New(rand.NewSource(int64(number)))
	own := fmt.Sprintf("kills/transfers/%d", number)
	for ctx.Err() == nil {
		from, to := draw.Intn(accounts), draw.Intn(accounts-1)
		if to >= from {
			to++
		}
		asked, cancel := limited(ctx)
		_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
			for name, change := range map[string]int{account(from): -1, account(to): 1, own: 1} {
				have, _ := strconv.Atoi(stm.Get(name))
				stm.Put(name, strconv.Itoa(have+change))
			}
			return nil
		}, concurrency.WithAbortContext(asked))
		cancel()
		if err != nil {
			told.unsure.Add(1)
		} else {
			told.acknowledged.Add(1)
		}
	}
}

func account(number int) string { return fmt.Sprintf("kills/account/%d", number) }

// Every count of a key, from the first on, until the last one is seen.
func recorded(client *clientv3.Client, key string, from int64, last int) error {
	ctx, cancel := context.WithTimeout(context.Background(), drawnS*time.Second)
	defer cancel()
	fence, seen := int64(0), 0
	for answer := range client.Watch(ctx, key, clientv3.WithRev(from)) {
		if err := answer.Err(); err != nil {
			return err
		}
		for _, event := range answer.Events {
			next, number := parsed(event.Kv.Value)
			if number != seen+1 {
				return fmt.Errorf("%s: count %d after %d", key, number, seen)
			}
			if next < fence {
				return fmt.Errorf("%s: count %d under fence %d after fence %d", key, number, next, fence)
			}
			fence, seen = next, number
		}
		if seen >= last {
			return nil
		}
	}
	return fmt.Errorf("%s: the watch ended at count %d of %d", key, seen, last)
}

// The key has a count within what was told. live: what a watch under the kills saw.
func checked(client *clientv3.Client, key string, from int64, told *tally, live <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), drawnS*time.Second)
	defer cancel()
	found, err := client.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(found.Kvs) == 0 {
		return errors.New("nobody counted")
	}
	_, last := parsed(found.Kvs[0].Value)
	if err := within(int64(last), told); err != nil {
		return err
	}
	if err := recorded(client, key, from, last); err != nil {
		return err
	}
	// The last count ends the watch that was there all the time.
	if _, err := client.Put(ctx, key, value(1<<62, last+1)); err != nil {
		return err
	}
	return <-live
}

func within(counted int64, told *tally) error {
	if counted < told.acknowledged.Load() || counted > told.acknowledged.Load()+told.unsure.Load() {
		return fmt.Errorf("%d counted, %d acknowledged, %d unsure", counted, told.acknowledged.Load(), told.unsure.Load())
	}
	return nil
}

// Until the fence that stands behind all others.
func watched(client *clientv3.Client, key string, from int64, seen chan<- error) {
	fence, last := int64(0), 0
	for answer := range client.Watch(context.Background(), key, clientv3.WithRev(from)) {
		if err := answer.Err(); err != nil {
			seen <- fmt.Errorf("the watch of %s: %w", key, err)
			return
		}
		for _, event := range answer.Events {
			next, number := parsed(event.Kv.Value)
			if number != last+1 || next < fence {
				seen <- fmt.Errorf("the watch of %s: %d %d after %d %d", key, next, number, fence, last)
				return
			}
			fence, last = next, number
		}
		if fence == 1<<62 {
			seen <- nil
			return
		}
	}
	seen <- fmt.Errorf("the watch of %s ended", key)
}

func summed(client *clientv3.Client, told *tally) error {
	ctx, cancel := context.WithTimeout(context.Background(), drawnS*time.Second)
	defer cancel()
	answer, err := client.Txn(ctx).Then(
		clientv3.OpGet("kills/account/", clientv3.WithPrefix()), clientv3.OpGet("kills/transfers/", clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return err
	}
	sums := [2]int64{}
	for i, part := range answer.Responses {
		for _, kv := range part.GetResponseRange().Kvs {
			have, _ := strconv.ParseInt(string(kv.Value), 10, 64)
			sums[i] += have
		}
	}
	if sums[0] != 0 {
		return fmt.Errorf("the accounts have %d together", sums[0])
	}
	return within(sums[1], told)
}

func main() {
	seconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Println("failed: SECONDS", err)
		os.Exit(1)
	}
	client := connect()
	defer client.Close()
	begun, err := client.Put(context.Background(), "kills/begun", "")
	if err != nil {
		fmt.Println("failed begin:", err)
		os.Exit(1)
	}
	from := begun.Header.Revision + 1
	var locked, led, moved tally
	lockedLive, ledLive := make(chan error, 1), make(chan error, 1)
	go watched(client, "kills/locked", from, lockedLive)
	go watched(client, "kills/led", from, ledLive)

	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := 0; i < workers; i++ {
		for _, work := range []func(){
			func() { lock(ctx, &locked) }, func() { lead(ctx, &led) }, func() { transfer(ctx, i, &moved) },
		} {
			group.Add(1)
			go func() {
				defer group.Done()
				work()
			}()
		}
	}
	fmt.Println("begun")
	group.Wait()

	isGood := true
	for _, one := range []struct {
		name string
		told *tally
		err  error
	}{
		{"mutex", &locked, checked(client, "kills/locked", from, &locked, lockedLive)},
		{"election", &led, checked(client, "kills/led", from, &led, ledLive)},
		{"transactions", &moved, summed(client, &moved)},
	} {
		told := fmt.Sprintf("%d acknowledged, %d unsure, %d refused, %d turns", one.told.acknowledged.Load(),
			one.told.unsure.Load(), one.told.refused.Load(), one.told.turns.Load())
		if one.err != nil {
			isGood = false
			fmt.Printf("failed %s: %v (%s)\n", one.name, one.err, told)
		} else {
			fmt.Printf("ok %s: %s\n", one.name, told)
		}
	}
	if !isGood {
		os.Exit(1)
	}
}
