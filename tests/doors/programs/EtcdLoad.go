// Load on a server of etcd's protocol, by etcd's own client. The arguments: endpoint, what, then numbers.
//
//	put OUTSTANDING SECONDS BYTES    get OUTSTANDING SECONDS BYTES    fill KEYS BYTES    watch WATCHERS SECONDS
//
// It prints one object of JSON: how many operations or events, in how many seconds, and times of one in milliseconds.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	keys        = 10000
	connections = 8
	batch       = 100
)

var ctx = context.Background()

type result struct {
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
	P50ms   float64 `json:"p50_ms"`
	P99ms   float64 `json:"p99_ms"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(place int) int {
	value, err := strconv.Atoi(os.Args[place])
	must(err)
	return value
}

func connect(count int) []*clientv3.Client {
	clients := make([]*clientv3.Client, count)
	for i := range clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 30 * time.Second})
		must(err)
		clients[i] = client
	}
	return clients
}

func at(times []float64, share float64) float64 {
	if len(times) == 0 {
		return 0
	}
	return times[int(float64(len(times)-1)*share)]
}

// So many workers ask one after the other until the time is over.
func load(outstanding int, seconds int, ask func(client *clientv3.Client, number int) error) result {
	clients := connect(min(outstanding, connections))
	var group sync.WaitGroup
	times := make([][]float64, outstanding)
	begun := time.Now()
	end := begun.Add(time.Duration(seconds) * time.Second)
	for worker := 0; worker < outstanding; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			client := clients[worker%len(clients)]
			for number := worker; time.Now().Before(end); number += outstanding {
				asked := time.Now()
				must(ask(client, number%keys))
				times[worker] = append(times[worker], float64(time.Since(asked).Microseconds())/1000)
			}
		}()
	}
	group.Wait()
	took := time.Since(begun).Seconds()
	var all []float64
	for _, one := range times {
		all = append(all, one...)
	}
	sort.Float64s(all)
	return result{len(all), took, at(all, 0.5), at(all, 0.99)}
}

func name(number int) string { return fmt.Sprintf("load/%012d", number) }

func put(value string) func(*clientv3.Client, int) error {
	return func(client *clientv3.Client, number int) error {
		_, err := client.Put(ctx, name(number), value)
		return err
	}
}

func get(client *clientv3.Client, number int) error {
	_, err := client.Get(ctx, name(number))
	return err
}

// Keys from 0 on, in transactions.
func fill(count int, value string) result {
	clients := connect(connections)
	var next atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for worker := 0; worker < 4*connections; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				first := int(next.Add(batch)) - batch
				if first >= count {
					return
				}
				var operations []clientv3.Op
				for number := first; number < min(first+batch, count); number++ {
					operations = append(operations, clientv3.OpPut(name(number), value))
				}
				_, err := clients[worker%len(clients)].Txn(ctx).Then(operations...).Commit()
				must(err)
			}
		}()
	}
	group.Wait()
	return result{Count: count, Seconds: time.Since(begun).Seconds()}
}

// All watch one key, which a writer changes as fast as it is answered. Counted are events at the watchers.
func watch(watchers int, seconds int) result {
	clients := connect(connections)
	told, cancel := context.WithCancel(ctx)
	var events atomic.Int64
	var ready, group sync.WaitGroup
	for number := 0; number < watchers; number++ {
		channel := clients[number%len(clients)].Watch(told, "watched", clientv3.WithCreatedNotify())
		ready.Add(1)
		group.Add(1)
		go func() {
			defer group.Done()
			for answer := range channel {
				if answer.Created {
					ready.Done()
				}
				events.Add(int64(len(answer.Events)))
			}
		}()
	}
	ready.Wait()
	writer := connect(1)[0]
	begun := time.Now()
	end := begun.Add(time.Duration(seconds) * time.Second)
	writes := 0
	for time.Now().Before(end) {
		_, err := writer.Put(ctx, "watched", strconv.Itoa(writes))
		must(err)
		writes++
	}
	last := begun
	for int(events.Load()) < writes*watchers {
		last = time.Now()
		if last.After(end.Add(time.Minute)) {
			must(fmt.Errorf("%d of %d events", events.Load(), writes*watchers))
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begun).Seconds()
	cancel()
	group.Wait()
	return result{Count: int(events.Load()), Seconds: took}
}

func main() {
	var found result
	switch os.Args[2] {
	case "put":
		found = load(number(3), number(4), put(strings.Repeat("v", number(5))))
	case "get":
		for worker, client := 0, connect(1)[0]; worker < keys; worker += batch {
			must(get(client, worker))
		}
		found = load(number(3), number(4), get)
	case "fill":
		found = fill(number(3), strings.Repeat("v", number(4)))
	case "watch":
		found = watch(number(3), number(4))
	default:
		must(fmt.Errorf("what is %s?", os.Args[2]))
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
}
