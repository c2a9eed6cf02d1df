// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-order-queues))" | FileCheck %s

// True dependencies, reuse of bytes (%z lies where %x was), and nothing twice: the second
// collective follows the first on its queue, and the last launch knows of both through one wait.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch @a({{.*}}) -> ({{.*}}) extent 1{{$}}
// CHECK-NEXT: exec.collective all_reduce {{.*}} queue communication after [0]
// CHECK-NEXT: exec.launch @free({{.*}}) -> ({{.*}}) extent 1{{$}}
// CHECK-NEXT: exec.collective all_reduce {{.*}} queue communication{{$}}
// CHECK-NEXT: exec.launch @reuse({{.*}}) -> ({{.*}}) extent 1 after [3]
// CHECK-NEXT: exec.launch @again({{.*}}) -> ({{.*}}) extent 1{{$}}
exec.program @p arena [512, 0, 0] threads 1 {
  %x = exec.buffer "x" device bytes 64 at 0 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 at 64 : tensor<16xf32>
  %z = exec.buffer "z" device bytes 64 at 0 : tensor<16xf32>
  %f = exec.buffer "f" device bytes 64 at 128 : tensor<16xf32>
  exec.entry @step {
    exec.launch @a() -> (%x) extent 1
    exec.collective all_reduce %x -> %y group 0 count 16 : f32 queue communication
    exec.launch @free() -> (%f) extent 1
    exec.collective all_reduce %y -> %y group 0 count 16 : f32 queue communication
    exec.launch @reuse(%y) -> (%z) extent 1
    exec.launch @again(%y) -> (%z) extent 1
  }
}

// What commits waits for the metrics that guard, though no operand says so.

// CHECK: exec.program @guarded
// CHECK: exec.launch @update({{.*}}) -> ({{.*}}) extent 1 after [0] {commits}
exec.program @guarded arena [512, 0, 0] threads 1 {
  %p = exec.buffer "part" device bytes 4 at 0 : tensor<f32>
  %l = exec.buffer "loss" device bytes 4 at 64 : tensor<f32>
  %w = exec.buffer "w" device bytes 64 at 128 : tensor<16xf32>
  exec.port metric "loss" %l : tensor<f32> {guards}
  exec.entry @step {
    exec.collective all_reduce %p -> %l group 0 count 1 : f32 queue communication
    exec.launch @update(%w) -> (%w) extent 1 {commits}
  }
}

// Of bytes that were touched in parts each part has its own last writer and readers.

// CHECK: exec.program @parts
// CHECK: exec.launch @all
// CHECK-NEXT: exec.launch @lower
// CHECK-NEXT: exec.collective all_reduce {{.*}} queue communication after [0]
// CHECK-NEXT: exec.launch @across
// CHECK-NEXT: exec.collective all_reduce {{.*}} queue communication after [1]
// CHECK-NEXT: exec.collective all_reduce {{.*}} queue communication after [3]
exec.program @parts arena [512, 0, 0] threads 1 {
  %all = exec.buffer "all" device bytes 256 at 0 : tensor<64xf32>
  %lower = exec.buffer "lower" device bytes 128 at 0 : tensor<32xf32>
  %upper = exec.buffer "upper" device bytes 128 at 128 : tensor<32xf32>
  %across = exec.buffer "across" device bytes 128 at 64 : tensor<32xf32>
  %other = exec.buffer "other" device bytes 128 at 256 : tensor<32xf32>
  %sum = exec.buffer "sum" device bytes 128 at 384 : tensor<32xf32>
  exec.entry @step {
    exec.launch @all() -> (%all) extent 1
    exec.launch @lower() -> (%lower) extent 1
    exec.collective all_reduce %upper -> %sum group 0 count 32 : f32 queue communication
    exec.launch @across(%across) -> (%other) extent 1
    exec.collective all_reduce %lower -> %sum group 0 count 32 : f32 queue communication
    exec.collective all_reduce %sum -> %upper group 0 count 32 : f32 queue communication
  }
}
