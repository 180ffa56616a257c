// Runs the cluster client of go-redis over three nodes: cluster PORT..., as cluster.py says
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

const keys = 1000

func check(ok bool, what string, got ...any) {
	if !ok {
		panic(fmt.Sprint(what, ": ", got))
	}
}

func main() {
	ctx := context.Background()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + os.Args[1]}})
	// A write may fail while only some nodes have the new map.
	writeAll := func(sign int, changing bool) {
		for number := 0; number < keys; number++ {
			err := client.Set(ctx, fmt.Sprint("key:", number), sign*number, 0).Err()
			check(err == nil || changing && strings.HasPrefix(err.Error(), "MOVED"), "SET", number, err)
		}
	}
	writeAll(1, false)
	check(client.MSet(ctx, "{tag}a", 1, "{tag}b", 2).Err() == nil, "MSET with a hash tag")
	values, err := client.MGet(ctx, "{tag}a", "{tag}b").Result()
	check(err == nil && values[0] == "1" && values[1] == "2", "MGET with a hash tag", values, err)
	err = client.Eval(ctx, "return 1", []string{"key:1", "key:2"}).Err()
	check(err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT"), "keys of two slots", err)
	changed := make(chan bool)
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(changed)
	}()
	fmt.Println("ready")
	for writing := true; writing; {
		writeAll(1, true)
		select {
		case <-changed:
			writing = false
		default:
		}
	}
	writeAll(-1, false)
	for number := 0; number < keys; number++ {
		value, err := client.Get(ctx, fmt.Sprint("key:", number)).Int()
		check(err == nil && value == -number, "GET", number, value, err)
	}
	check(client.Close() == nil, "close")
}
