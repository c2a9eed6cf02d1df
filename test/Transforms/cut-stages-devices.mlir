// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-cut-stages="stages=2 cluster=presets:cpux3" | FileCheck %s

// Who says which devices the meshes have is believed: three equal products, two of them for two devices.
// CHECK-LABEL: func.func @main
// CHECK-SAME: autopar.stage_devices = [array<i64: 1, 2>, array<i64: 0>]
// CHECK: autopar.transfer %{{.*}} to 1 {autopar.id = "second/to.1"}
module {
  func.func @main(%x: tensor<4x64xf32>, %a: tensor<64x64xf32> {autopar.donated}, %b: tensor<64x64xf32> {autopar.donated}, %c: tensor<64x64xf32> {autopar.donated}) -> tensor<4x64xf32>
      attributes {autopar.stage_devices = [array<i64: 1, 2>, array<i64: 0>]} {
    %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "second"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %2 = autopar.dot_general %1, %c contract [1] x [0] {autopar.id = "third"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    return %2 : tensor<4x64xf32>
  }
}

// -----

// Two devices that take six times as long as their work shared evenly get less of it.
// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.stage_pace
// CHECK: autopar.transfer %{{.*}} to 1 {autopar.id = "first/to.1"}
module {
  func.func @main(%x: tensor<4x64xf32>, %a: tensor<64x64xf32> {autopar.donated}, %b: tensor<64x64xf32> {autopar.donated}, %c: tensor<64x64xf32> {autopar.donated}) -> tensor<4x64xf32>
      attributes {autopar.stage_devices = [array<i64: 1, 2>, array<i64: 0>], autopar.stage_pace = array<f64: 6.0, 1.0>} {
    %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "second"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %2 = autopar.dot_general %1, %c contract [1] x [0] {autopar.id = "third"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    return %2 : tensor<4x64xf32>
  }
}

// -----

// The same, but the one device has much to do beside its work in each of four micro-batches.
// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.stage_extra
// CHECK: autopar.transfer %{{.*}} to 1 {autopar.id = "second/to.1"}
module {
  func.func @main(%all: tensor<4x4x64xf32>, %a: tensor<64x64xf32> {autopar.donated}, %b: tensor<64x64xf32> {autopar.donated}, %c: tensor<64x64xf32> {autopar.donated}) -> tensor<4x4x64xf32>
      attributes {autopar.stage_devices = [array<i64: 1, 2>, array<i64: 0>], autopar.stage_pace = array<f64: 6.0, 1.0>, autopar.stage_extra = array<f64: 0.0, 20.0>} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<4x4x64xf32> -> tensor<4x64xf32>
    %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "second"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %2 = autopar.dot_general %1, %c contract [1] x [0] {autopar.id = "third"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %y = autopar.stack_micro_batches %2 {autopar.id = "y"} : tensor<4x64xf32> -> tensor<4x4x64xf32>
    return %y : tensor<4x4x64xf32>
  }
}

// -----

// expected-error @+1 {{stages: the function says the devices of 3 meshes; expected 2}}
module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {autopar.stage_devices = [array<i64: 0>, array<i64: 1>, array<i64: 2>]} {
    return %x : tensor<4xf32>
  }
}
