// RUN: autopar-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(autopar-insert-reshards,autopar-partition),autopar-schedule)' | FileCheck %s

// One rank sends each of two ranks its half; the halves' gradients, put together, come back. An input
// that both stages read lies on each mesh as that splits it.
// CHECK: autopar.mesh @m0
// CHECK-LABEL: func.func @main.0
// CHECK-SAME: (%arg0: tensor<4x4xf32> {{.*}}@m0
// CHECK: %[[F:.*]] = autopar.binary mul
// CHECK: %[[A:.*]] = autopar.slice %[[F]] starts [0, 0] {{.*}} : tensor<4x4xf32> -> tensor<2x4xf32>
// CHECK: autopar.send %[[A]] to 1 peers [1] tag 0
// CHECK: %[[B:.*]] = autopar.slice %[[F]] starts [2, 0] {{.*}} : tensor<4x4xf32> -> tensor<2x4xf32>
// CHECK: autopar.send %[[B]] to 1 peers [2] tag 0
// CHECK-DAG: %[[G0:.*]] = autopar.receive from 1 peers [1] tag 2 {{.*}} : tensor<2x4xf32>
// CHECK-DAG: %[[G1:.*]] = autopar.receive from 1 peers [2] tag 2 {{.*}} : tensor<2x4xf32>
// CHECK: autopar.concat %[[G0]], %[[G1]] dim 0 {{.*}} -> tensor<4x4xf32>
// CHECK-LABEL: func.func @main.1
// CHECK-SAME: (%arg0: tensor<2x4xf32> {{.*}}@m1
// CHECK: autopar.receive from 0 peers [0, 0] tag 0 {{.*}} : tensor<2x4xf32>
// CHECK: autopar.send {{.*}} to 0 peers [0, 0] tag 2 {{.*}} : tensor<2x4xf32>
autopar.mesh @m0 ["x" = 1]
autopar.mesh @m1 ["x" = 2] devices [1, 2]
func.func @main(%x: tensor<4x4xf32> {autopar.name = "x", autopar.sharding = #autopar.sharding<@m0, [{"x"}, {}]>},
                %w: tensor<4x4xf32> {autopar.donated, autopar.name = "w", autopar.stage = 0 : i64}) -> (tensor<4x4xf32> {autopar.name = "w"})
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<4x4xf32>
  %there = autopar.transfer %f to 1 {autopar.id = "f/to.1", autopar.strategy = #autopar.strategy<@m1, [{"x"}, {}]>} : tensor<4x4xf32>
  %g = autopar.binary add %there, %x {autopar.id = "f/vjp.0", autopar.strategy = #autopar.strategy<@m1, [{"x"}, {}]>} : tensor<4x4xf32>
  %back = autopar.transfer %g to 0 {autopar.id = "f/vjp.0/to.0"} : tensor<4x4xf32>
  %next = autopar.binary mul %w, %back {autopar.id = "w/vjp"} : tensor<4x4xf32>
  return %next : tensor<4x4xf32>
}

// -----

autopar.mesh @m0 ["x" = 1]
// expected-error @+1 {{has other axes than m0; meshes of stages may differ in sizes only}}
autopar.mesh @m1 ["y" = 2] devices [1, 2]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_meshes = 2 : i64} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{is one of 1 meshes; the stages take turns on 2}}
autopar.mesh @m0 ["x" = 1]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_meshes = 2 : i64} {
  return %x : tensor<4xf32>
}

// -----

// expected-note @+1 {{the first one is here}}
autopar.mesh @m0 ["x" = 1]
autopar.mesh @m1 ["x" = 2] devices [1, 2]
// expected-error @+1 {{is mesh number 3; the stages take turns on 2}}
autopar.mesh @m2 ["x" = 1] devices [3]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_meshes = 2 : i64} {
  return %x : tensor<4xf32>
}

// -----

// Whatever is on no stage has to fit every mesh.
autopar.mesh @m0 ["x" = 2]
autopar.mesh @m1 ["x" = 3] devices [2, 3, 4]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_meshes = 2 : i64} {
  // expected-error @+1 {{has an illegal strategy: factor 0 of extent 4 leaves a shard of 3 empty}}
  %y = autopar.unary neg %x {autopar.strategy = #autopar.strategy<@m0, [{"x"}]>} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {autopar.stage = 0 : i64}) -> tensor<2xf32> {
  // expected-error @+1 {{gives 'tensor<2xf32>' for 'tensor<4xf32>'; expected the same tensor, or with 'from' and 'to' another part of it}}
  %y = autopar.transfer %x to 1 : tensor<4xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}
