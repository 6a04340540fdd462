// A member of a group over franz-go, which tells what it is told in lines that begin with "event".
//
//	GroupMember BOOTSTRAP GROUP TOPIC ASSIGNOR [INSTANCE]
//
// ASSIGNOR: range or cooperative. INSTANCE: makes it a static member. SIGTERM closes it. It commits after each batch.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	session       = 6 * time.Second
	staticSession = 45 * time.Second
	beat          = 500 * time.Millisecond
)

func tell(word string, held map[string][]int32) {
	words := []string{"event", word}
	for _, numbers := range held {
		slices.Sort(numbers)
		for _, number := range numbers {
			words = append(words, fmt.Sprint(number))
		}
	}
	fmt.Println(strings.Join(words, " "))
}

func teller(word string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, held map[string][]int32) { tell(word, held) }
}

func settings(words []string) []kgo.Opt {
	balancer := kgo.RangeBalancer()
	if words[3] == "cooperative" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	found := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(words[0], ",")...),
		kgo.ClientID("franz-go"),
		kgo.ConsumerGroup(words[1]),
		kgo.ConsumeTopics(words[2]),
		kgo.Balancers(balancer),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(beat),
		kgo.OnPartitionsAssigned(teller("assigned")),
		kgo.OnPartitionsRevoked(teller("revoked")),
		kgo.OnPartitionsLost(teller("lost")),
	}
	if len(words) > 4 {
		return append(found, kgo.InstanceID(words[4]), kgo.SessionTimeout(staticSession))
	}
	return append(found, kgo.SessionTimeout(session))
}

func main() {
	ending, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(settings(os.Args[1:])...)
	if err != nil {
		panic(err)
	}
	read := 0
	for ending.Err() == nil {
		fetches := client.PollFetches(ending)
		for _, one := range fetches.Errors() {
			if errors.Is(one.Err, kerr.FencedInstanceID) {
				fmt.Println("event failed FENCED_INSTANCE_ID")
				client.Close()
				return
			}
			if !errors.Is(one.Err, context.Canceled) {
				fmt.Println(one.Err)
			}
		}
		if count := fetches.NumRecords(); count > 0 {
			if err := client.CommitUncommittedOffsets(ending); err != nil {
				fmt.Println(err)
			}
			read += count
			fmt.Printf("event read %d\n", read)
		}
	}
	client.Close()
	fmt.Println("event closed")
}
