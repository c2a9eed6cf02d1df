// REQUIRES: plugin
// A module that never saw ONNX, in a tool that was not built with AutoPar: sharded by cost,
// partitioned, handed to the upstream shard dialect, and read back.
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(auto-shard{cluster=presets:cpux2},func.func(autopar-partition,autopar-optimize-collectives))" %s | FileCheck %s
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(auto-shard{cluster=presets:cpux2},func.func(autopar-partition),autopar-to-shard)" %s | FileCheck %s --check-prefix=SHARD
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline="builtin.module(auto-shard{cluster=presets:cpux2},func.func(autopar-partition),autopar-to-shard,autopar-from-shard)" %s | FileCheck %s

// The rows of x are few and the weights are large: the column/row pair leaves one reduction of the
// small result.
// CHECK: autopar.mesh @mesh ["x" = 2]
// CHECK: linalg.matmul {{.*}} tensor<4x1024xf32>, tensor<1024x2048xf32>
// CHECK: linalg.matmul {{.*}} tensor<4x2048xf32>, tensor<2048x1024xf32>
// CHECK: autopar.{{all_reduce|reduce_scatter}}

// SHARD: shard.grid @mesh(shape = 2)
// SHARD: linalg.matmul {{.*}} tensor<4x2048xf32>, tensor<2048x1024xf32>
// SHARD: shard.{{all_reduce|reduce_scatter}}
func.func @main(%x: tensor<4x1024xf32>, %w1: tensor<1024x4096xf32>, %w2: tensor<4096x1024xf32>) -> tensor<4x1024xf32> {
  %c = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<4x4096xf32>
  %z1 = linalg.fill ins(%c : f32) outs(%e1 : tensor<4x4096xf32>) -> tensor<4x4096xf32>
  %h = linalg.matmul ins(%x, %w1 : tensor<4x1024xf32>, tensor<1024x4096xf32>) outs(%z1 : tensor<4x4096xf32>) -> tensor<4x4096xf32>
  %t = math.tanh %h : tensor<4x4096xf32>
  %e2 = tensor.empty() : tensor<4x1024xf32>
  %z2 = linalg.fill ins(%c : f32) outs(%e2 : tensor<4x1024xf32>) -> tensor<4x1024xf32>
  %y = linalg.matmul ins(%t, %w2 : tensor<4x4096xf32>, tensor<4096x1024xf32>) outs(%z2 : tensor<4x1024xf32>) -> tensor<4x1024xf32>
  return %y : tensor<4x1024xf32>
}
