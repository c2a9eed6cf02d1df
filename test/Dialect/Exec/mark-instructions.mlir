// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(exec.program(autopar-mark-instructions))" | FileCheck %s

// A metric that is evaluated, the loss, needs the forward part alone; updates commit. What keeps a running mean moves behind the loss.

// CHECK-LABEL: exec.program @train
// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch @forward({{.*}}) extent 1 {evaluated}
// CHECK-NEXT: exec.launch @loss({{.*}}) extent 1 {evaluated}
// CHECK-NEXT: exec.collective {{ *}}all_reduce {{.*}} queue {{ *}}communication {evaluated}
// CHECK-NEXT: exec.launch @backward({{.*}}) extent 1{{$}}
// CHECK-NEXT: exec.launch @update({{.*}}) extent 1 {commits}
// CHECK-NEXT: exec.launch @mean({{.*}}) extent 1 {commits}
exec.program @train threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  %m = exec.buffer "m" device bytes 64 : tensor<16xf32>
  %h = exec.buffer "h" device bytes 64 : tensor<16xf32>
  %p = exec.buffer "part" device bytes 4 : tensor<f32>
  %l = exec.buffer "loss" device bytes 4 : tensor<f32>
  %g = exec.buffer "g" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port state "w" %w : tensor<16xf32>
  exec.port state "m" %m : tensor<16xf32>
  exec.port metric "loss" %l : tensor<f32> {evaluated, guards}
  exec.entry @step {
    exec.launch @forward(%x, %w) -> (%h) extent 1
    exec.launch @mean(%m, %h) -> (%m) extent 1
    exec.launch @loss(%h) -> (%p) extent 1
    exec.collective all_reduce %p -> %l group 0 count 1 : f32 queue communication
    exec.launch @backward(%h, %x) -> (%g) extent 1
    exec.launch @update(%w, %g) -> (%w) extent 1
  }
  exec.timetable [@step] slots [0]
}

// -----

// Micro-batches: an entry that several rows run. What it keeps itself cannot wait, and a loss that reads
// what was kept cannot be evaluated without changing it.

// CHECK-LABEL: exec.program @micro
// CHECK: exec.launch @sum({{.*}}) extent 1 {evaluated}
// CHECK-NEXT: exec.launch @mean({{.*}}) extent 1{{$}}
// CHECK: exec.launch @finish({{.*}}) extent 1 {evaluated}
// CHECK-NEXT: exec.launch @update({{.*}}) extent 1 {commits}
exec.program @micro threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  %s = exec.buffer "sum" device bytes 64 : tensor<16xf32>
  %l = exec.buffer "loss" device bytes 4 : tensor<f32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port state "w" %w : tensor<16xf32>
  exec.port metric "loss" %l : tensor<f32> {evaluated, guards}
  exec.entry @batch {
    exec.launch @sum(%x, %s) -> (%s) extent 1
    exec.launch @mean(%x) -> (%w) extent 1
  }
  exec.entry @end {
    exec.launch @finish(%s) -> (%l) extent 1
    exec.launch @update(%s) -> (%w) extent 1
  }
  exec.timetable [@batch, @batch, @end] slots [0, 0, 0]
}

// -----

// Where that changes state, nothing is evaluated.

// CHECK-LABEL: exec.program @mixed
// CHECK-NOT: evaluated
exec.program @mixed threads 1 {
  %w = exec.buffer "w" device bytes 4 : tensor<f32>
  %l = exec.buffer "loss" device bytes 4 : tensor<f32>
  exec.port state "w" %w : tensor<f32>
  exec.port metric "loss" %l : tensor<f32> {evaluated, guards}
  exec.entry @step {
    exec.launch @change(%w) -> (%w) extent 1
    exec.launch @loss(%w) -> (%l) extent 1
  }
  exec.timetable [@step] slots [0]
}

// -----

// What computes the guard and keeps a state at once commits where it stands; what comes before it moves behind it.

// CHECK-LABEL: exec.program @both
// CHECK: exec.launch @loss_and_count({{.*}}) extent 1 {commits}
// CHECK-NEXT: exec.launch @mean({{.*}}) extent 1 {commits}
exec.program @both threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %m = exec.buffer "m" device bytes 64 : tensor<16xf32>
  %n = exec.buffer "n" device bytes 4 : tensor<f32>
  %l = exec.buffer "loss" device bytes 4 : tensor<f32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port state "m" %m : tensor<16xf32>
  exec.port state "n" %n : tensor<f32>
  exec.port metric "loss" %l : tensor<f32> {evaluated, guards}
  exec.entry @step {
    exec.launch @mean(%x) -> (%m) extent 1
    exec.launch @loss_and_count(%x) -> (%l, %n) extent 1
  }
  exec.timetable [@step] slots [0]
}

// -----

// A copy to host memory, which keeps what an update makes, moves behind the guard together with it.

// CHECK-LABEL: exec.program @offloaded
// CHECK: exec.launch @loss({{.*}})
// CHECK-NEXT: exec.launch @update({{.*}}) extent 1 {commits}
// CHECK-NEXT: exec.copy {{.*}}commits
exec.program @offloaded threads 1 {
  %g = exec.buffer "g" device bytes 64 : tensor<16xf32>
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  %v = exec.buffer "v" device bytes 64 : tensor<16xf32>
  %m = exec.buffer "m" device bytes 64 : tensor<16xf32>
  %l = exec.buffer "loss" device bytes 4 : tensor<f32>
  exec.port input "g" %g : tensor<16xf32>
  exec.port state "w" %w : tensor<16xf32>
  exec.port state "m" %m : tensor<16xf32>
  exec.port metric "loss" %l : tensor<f32> {evaluated, guards}
  exec.entry @step {
    exec.launch @update(%w, %g) -> (%w, %v) extent 1
    exec.copy %v at 0 -> %m at 0 bytes 64 after [0]
    exec.launch @loss(%g) -> (%l) extent 1
  }
  exec.timetable [@step] slots [0]
}
