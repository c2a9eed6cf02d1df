// RUN: autopar-opt %s --auto-shard="cluster=presets:h100x8 constraints='mesh=data=2xe=4,batch-axis=data,expert-axis=e'" --autopar-partition --autopar-optimize-collectives | FileCheck %s
// RUN: autopar-opt %s --auto-shard="cluster=presets:h100x8 constraints='mesh=data=2xe=4,batch-axis=data,expert-axis=e' emit-plan=%t.json" -o %t.mlir && FileCheck %s --check-prefix=PLAN < %t.json

// A mixture without capacity by experts: each rank has some, tokens are gathered before they are
// repeated for their choices, and scattered as their results are summed.

// PLAN: "expert_parts": 4
// PLAN: "d": {{\[\[}}"e"],[],[]]
// PLAN: "x": {{\[\[}}"data","e"],[]]

// CHECK: autopar.all_gather {{.*}} dim 0 over @mesh ["e"]{{.*}} : tensor<512x1024xf32> -> tensor<2048x1024xf32>
// CHECK-NOT: all_to_all
// CHECK: autopar.reduce_scatter sum {{.*}} dim 0 over @mesh ["e"] {autopar.id = "sum/reshard"} : tensor<2048x1024xf32> -> tensor<512x1024xf32>
autopar.origin @r : tensor<1024x16xf32>
autopar.origin @u : tensor<16x1024x2048xf32>
autopar.origin @d : tensor<16x2048x1024xf32>
func.func @main(%x: tensor<4096x1024xf32> {autopar.name = "x"}, %r: tensor<1024x16xf32> {autopar.name = "r", autopar.origin = @r}, %u: tensor<16x1024x2048xf32> {autopar.name = "u", autopar.origin = @u}, %d: tensor<16x2048x1024xf32> {autopar.name = "d", autopar.origin = @d}) -> (tensor<4096x1024xf32> {autopar.name = "y"}) {
  %s = autopar.dot_general %x, %r contract [1] x [0] {autopar.id = "router"} : (tensor<4096x1024xf32>, tensor<1024x16xf32>) -> tensor<4096x16xf32>
  %w, %e = autopar.top_k %s dim 1 {autopar.id = "choices"} : (tensor<4096x16xf32>) -> (tensor<4096x4xf32>, tensor<4096x4xi64>)
  %rows = autopar.broadcast %x dims [0, 2] {autopar.id = "rows"} : tensor<4096x1024xf32> -> tensor<4096x4x1024xf32>
  %0 = autopar.grouped_dot %rows, %u, %e {autopar.id = "up"} : (tensor<4096x4x1024xf32>, tensor<16x1024x2048xf32>, tensor<4096x4xi64>) -> tensor<4096x4x2048xf32>
  %1 = autopar.unary gelu_tanh %0 {autopar.id = "gelu"} : tensor<4096x4x2048xf32>
  %2 = autopar.grouped_dot %1, %d, %e {autopar.id = "down"} : (tensor<4096x4x2048xf32>, tensor<16x2048x1024xf32>, tensor<4096x4xi64>) -> tensor<4096x4x1024xf32>
  %3 = autopar.broadcast %w dims [0, 1] {autopar.id = "weights"} : tensor<4096x4xf32> -> tensor<4096x4x1024xf32>
  %4 = autopar.binary mul %3, %2 {autopar.id = "weighted"} : tensor<4096x4x1024xf32>
  %5 = autopar.reduce sum %4 dims [1] {autopar.id = "sum"} : tensor<4096x4x1024xf32> -> tensor<4096x1024xf32>
  return %5 : tensor<4096x1024xf32>
}
