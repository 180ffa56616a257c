// Runs the ordinary use of go-redis: main PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(ok bool, what string, got ...any) {
	if !ok {
		panic(fmt.Sprint(what, ": ", got))
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, DB: protocol})
		check(client.Set(ctx, "key", "value", 100*time.Second).Err() == nil, "SET")
		value, err := client.Get(ctx, "key").Result()
		check(err == nil && value == "value", "GET", value, err)
		check(errors.Is(client.Get(ctx, "absent").Err(), redis.Nil), "GET of an absent key")
		ttl := client.TTL(ctx, "key").Val()
		check(ttl > 0 && ttl <= 100*time.Second, "TTL", ttl)
		check(client.SetNX(ctx, "key", "other", 0).Val() == false, "SET NX")
		check(client.HSet(ctx, "hash", "f", "1", "g", "2").Val() == 2, "HSET")
		fields := client.HGetAll(ctx, "hash").Val()
		check(len(fields) == 2 && fields["g"] == "2", "HGETALL", fields)
		results, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for number := 0; number < 500; number++ {
				pipe.Set(ctx, fmt.Sprint("many:", number), number, 0)
			}
			return nil
		})
		check(err == nil && len(results) == 500, "a pipeline", err)
		found := map[string]bool{}
		keys := client.Scan(ctx, 0, "many:*", 50).Iterator()
		for keys.Next(ctx) {
			found[keys.Val()] = true
		}
		check(keys.Err() == nil && len(found) == 500, "SCAN", len(found), keys.Err())
		err = client.Watch(ctx, func(tx *redis.Tx) error {
			client.Set(ctx, "key", "changed", 0)
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "key", "lost", 0).Err() })
			return err
		}, "key")
		check(errors.Is(err, redis.TxFailedErr), "a watched key", err)
		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Incr(ctx, "number").Err() })
		check(err == nil && client.Get(ctx, "number").Val() == "1", "MULTI", err)
		check(client.HGet(ctx, "key", "f").Err() != nil, "an error of a type")
		check(client.LPush(ctx, "list", "a").Err() != nil, "an unknown command")
		check(client.FlushDB(ctx).Err() == nil && client.DBSize(ctx).Val() == 0, "FLUSHDB")
		check(client.Close() == nil, "close")
	}
}
