// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(exec.program(autopar-plan-memory,autopar-order-queues))" | FileCheck %s

// What a round hands on lies where it finds it ("new" at the place of "old"), and what it only reads
// ("fixed") is there for all of them: "own" of a round may not take its bytes. The receive of a round
// awaits who read there in the round before.

// CHECK: "old" device bytes 64 at [[PLACE:[0-9]+]]
// CHECK: "new" device bytes 64 at [[PLACE]]
// CHECK-NOT: exec.hand_on
// CHECK: exec.entry @round
// CHECK-NEXT: exec.launch @read({{.*}}) -> ({{.*}}) extent 1 {awaits = {head = array<i32: 1>, round = array<i32: 1>}}
// CHECK-NEXT: exec.recv {{.*}} queue receive after [0]
// CHECK: exec.entry @tail
// CHECK-NEXT: exec.launch @last({{.*}}) -> ({{.*}}) extent 1 {awaits = {round = array<i32: 1>}}
exec.program @p threads 1 {
  %fixed = exec.buffer "fixed" device bytes 64 : tensor<16xf32>
  %old = exec.buffer "old" device bytes 64 : tensor<16xf32>
  %new = exec.buffer "new" device bytes 64 : tensor<16xf32>
  %own = exec.buffer "own" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.hand_on %new to %old
  exec.entry @head {
    exec.launch @first() -> (%fixed) extent 1
    exec.recv %old from 0 bytes 64 tag 0 queue receive
  }
  exec.entry @round {
    exec.launch @read(%fixed, %old) -> (%own) extent 1
    exec.recv %new from 0 bytes 64 tag 1 queue receive
    exec.launch @use(%own) -> (%y) extent 1
  }
  exec.entry @tail {
    exec.launch @last(%new) -> (%y) extent 1
  }
  exec.timetable [@head, @round, @round, @round, @tail] slots [0, 0, 1, 2, 0]
}

// -----

// What is received before the old one was read for the last time cannot lie there: it is copied at
// the end of the round.
// CHECK: exec.entry @round
// CHECK: exec.copy {{.*}} id = "new.handed_on"
// CHECK: exec.entry @tail
exec.program @p threads 1 {
  %old = exec.buffer "old" device bytes 64 : tensor<16xf32>
  %new = exec.buffer "new" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.hand_on %new to %old
  exec.entry @head {
    exec.launch @first() -> (%old) extent 1
  }
  exec.entry @round {
    exec.recv %new from 0 bytes 64 tag 1 queue receive
    exec.launch @read(%old) -> (%y) extent 1
  }
  exec.entry @tail {
    exec.launch @last(%new) -> (%y) extent 1
  }
  exec.timetable [@head, @round, @round, @tail] slots [0, 0, 1, 0]
}
