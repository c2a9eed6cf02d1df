// RUN: autopar-opt %s | autopar-opt | FileCheck %s

// Every entity and instruction survives printing and parsing.

// CHECK: exec.program @class0 arena [4096, 0, 0] threads 2 kernels @kernels
exec.program @class0 arena [4096, 0, 0] threads 2 kernels @kernels {
  // CHECK: %[[X:.*]] = exec.buffer "x" device bytes 256 at 0 : tensor<8x8xf32>
  %x = exec.buffer "x" device bytes 256 at 0 : tensor<8x8xf32>
  %w = exec.buffer "w" device bytes 256 at 256 : tensor<8x8xf32>
  %y = exec.buffer "y" device bytes 256 at 512 : tensor<8x8xf32> {slots = 2 : i64, slotStride = 256 : i64}
  // CHECK: exec.buffer "control" device bytes 128 at 1024 binding control : tensor<16xi64>
  %control = exec.buffer "control" device bytes 128 at 1024 binding control : tensor<16xi64>
  // CHECK: exec.buffer "staging" pinned_host bytes 256
  %staging = exec.buffer "staging" pinned_host bytes 256 : tensor<8x8xf32>
  // CHECK: exec.view "row" %[[X]] at 64 bytes 32 : tensor<8xf32>
  %row = exec.view "row" %x at 64 bytes 32 : tensor<8xf32>
  // CHECK: exec.port input "x" %[[X]] : tensor<8x8xf32>
  exec.port input "x" %x : tensor<8x8xf32>
  // CHECK: exec.port parameter "w" : tensor<8x8xf32> {file = "m.onnx", offset = 64 : i64}
  exec.port parameter "w" : tensor<8x8xf32> {file = "m.onnx", offset = 64 : i64}
  // CHECK: exec.port parameter "b" : tensor<8xf32> {drawn = "zeros"}
  exec.port parameter "b" : tensor<8xf32> {drawn = "zeros"}
  exec.port output "y" %y : tensor<8x8xf32>
  // CHECK: exec.entry @load
  exec.entry @load {
    // CHECK: exec.read "w" -> %{{.*}} queue copy_in
    exec.read "w" -> %staging queue copy_in
    // CHECK: exec.copy %{{.*}} at 0 -> %{{.*}} at 0 bytes 256 after [0]
    exec.copy %staging at 0 -> %w at 0 bytes 256 after [0]
    // CHECK: exec.pack %{{.*}} -> %{{.*}} for #exec.matmul<
    exec.pack %w -> %w for #exec.matmul<a = <f32 [8, 8] strides [8, 1]>, b = <f32 [8, 8] strides [8, 1]>, c = <f32 [8, 8] strides [8, 1]>, packedB = true>
  }
  // CHECK: exec.entry @step
  exec.entry @step {
    // CHECK: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} bias %{{.*}} <a = <f32[8, 8] strides[8, 1]>{{.*}} scale = 5.000000e-01 : f32, packedB = true> {flops = 1024 : i64, id = "fc", key = "dot/8x8x8"}
    exec.matmul %x, %w -> %y bias %row <a = <f32 [8, 8] strides [8, 1]>, b = <f32 [8, 8] strides [8, 1]>, c = <f32 [8, 8] strides [8, 1]>, biasType = f32, scale = 0.5 : f32, packedB = true> {id = "fc", key = "dot/8x8x8", flops = 1024 : i64}
    // CHECK: exec.launch @k0(%{{.*}}) -> (%{{.*}}) extent 8
    exec.launch @k0(%y) -> (%x) extent 8
    // CHECK: exec.launch @k1(%{{.*}}) -> (%{{.*}}) extent 8 grid [2, 128, 512] {id = "gpu"}
    exec.launch @k1(%y) -> (%x) extent 8 grid [2, 128, 512] {id = "gpu"}
    // CHECK: exec.collective all_reduce %{{.*}} -> %{{.*}} group 0 reduction max count 64 : f32 queue communication after [1]
    exec.collective all_reduce %x -> %x group 0 reduction max count 64 : f32 queue communication after [1]
    // CHECK: exec.permute %{{.*}} -> %{{.*}} permutation 0 bytes 256
    exec.permute %x -> %y permutation 0 bytes 256
    // CHECK: exec.send %{{.*}} to 0 bytes 256 tag 7
    exec.send %x to 0 bytes 256 tag 7
    // CHECK: exec.recv %{{.*}} from 0 bytes 256
    exec.recv %x from 0 bytes 256
    // CHECK: exec.attention(%{{.*}}, %{{.*}}, %{{.*}}) -> (%{{.*}}, %{{.*}}) <[<f32[1, 1, 2, 4] strides[8, 8, 4, 1]>,{{.*}}], scale = 5.000000e-01 : f64, causal = true>
    exec.attention(%x, %x, %x) -> (%y, %w) <[<f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>], scale = 0.5 : f64, causal = true>
    // CHECK: exec.attention{{.*}} causal = true, window = 1>
    exec.attention(%x, %x, %x) -> (%y, %w) <[<f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>], scale = 0.5 : f64, causal = true, window = 1>
    // CHECK: exec.attention{{.*}} causal = true> shard 8 of 2
    exec.attention(%x, %y, %y) -> (%y, %w) <[<f32 [1, 1, 1, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 2, 4] strides [8, 8, 4, 1]>, <f32 [1, 1, 1, 4] strides [8, 8, 4, 1]>], scale = 0.5 : f64, causal = true> shard 8 of 2
    // CHECK: exec.grouped_product %{{.*}}, %{{.*}} by %{{.*}} -> %{{.*}} <lhs = <f32[3, 4] strides[4, 1]>, rows = <f32[3, 2] strides[2, 1]>, matrices = tensor<2x2x4xf32>, numbers = i64, transposed = true>
    exec.grouped_product %x, %y by %w -> %y <lhs = <f32 [3, 4] strides [4, 1]>, rows = <f32 [3, 2] strides [2, 1]>, matrices = tensor<2x2x4xf32>, numbers = i64, transposed = true>
    // CHECK: exec.grouped_product {{.*}}gradient = true>
    exec.grouped_product %x, %y by %w -> %y <lhs = <f32 [3, 4] strides [4, 1]>, rows = <f32 [3, 2] strides [2, 1]>, matrices = tensor<2x4x2xf32>, numbers = i32, gradient = true>
    // CHECK: exec.grouped_product %{{.*}}, made by @k(%{{.*}}, %{{.*}}) extent 2 steps [8, 0], [4, 4] by %{{.*}} -> %{{.*}} <{{.*}}, transposed = true, madeColumns = 1>
    exec.grouped_product %x, made by @k(%y, %w) extent 2 steps [8, 0], [4, 4] by %w -> %y <lhs = <f32 [3, 4] strides [4, 1]>, rows = <f32 [3, 2] strides [2, 1]>, matrices = tensor<2x2x4xf32>, numbers = i64, transposed = true, madeColumns = 1>
    // CHECK: exec.reorder %{{.*}} plain -> %{{.*}} blocked16 : tensor<1x8x2x4xf32>
    exec.reorder %x plain -> %y blocked16 : tensor<1x8x2x4xf32>
  }
  // CHECK: exec.timetable [@step, @step] slots [0, 1]
  exec.timetable [@step, @step] slots [0, 1]
}
module @kernels {}
// CHECK: exec.rank 0 of @class0 groups [array<i32: 0>] values [3] ports [#exec.shard<offset = [0, 0], extent = [8, 8]>, #exec.shard<offset = [0, 0], extent = [8, 8], replica = 1>]
exec.rank 0 of @class0 groups [array<i32: 0>] values [3] ports [#exec.shard<offset = [0, 0], extent = [8, 8]>, #exec.shard<offset = [0, 0], extent = [8, 8], replica = 1>]
