// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-cut-stages="stages=2 cluster=presets:cpux2" | FileCheck %s

// The cut is where little is sent; a parameter lives where it is read first; what depends on inputs
// alone is on no stage.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<4x64xf32>
// CHECK-SAME: %arg1: tensor<64x64xf32> {autopar.origin = @w1, autopar.stage = 0 : i64}
// CHECK-SAME: %arg2: tensor<64x4xf32> {autopar.origin = @w2, autopar.stage = 0 : i64}
// CHECK-SAME: %arg3: tensor<4x64xf32> {autopar.origin = @w3, autopar.stage = 1 : i64}
// CHECK-SAME: autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64
// CHECK: autopar.unary neg %arg0
// CHECK: %[[NARROW:.*]] = autopar.dot_general %{{.*}}, %arg2
// CHECK: %[[MOVED:.*]] = autopar.transfer %[[NARROW]] to 1 {autopar.id = "narrow/to.1"}
// CHECK: %[[WIDE:.*]] = autopar.dot_general %[[MOVED]], %arg3
// CHECK: %[[AGAIN:.*]] = autopar.transfer %arg1 to 1 {autopar.id = "arg1/to.1"}
// CHECK: autopar.dot_general %[[WIDE]], %[[AGAIN]]
module {
  autopar.origin @w1 : tensor<64x64xf32>
  autopar.origin @w2 : tensor<64x4xf32>
  autopar.origin @w3 : tensor<4x64xf32>
  func.func @main(%x: tensor<4x64xf32>, %w1: tensor<64x64xf32> {autopar.origin = @w1}, %w2: tensor<64x4xf32> {autopar.origin = @w2},
                  %w3: tensor<4x64xf32> {autopar.origin = @w3}) -> tensor<4x64xf32> {
    %0 = autopar.unary neg %x {autopar.id = "neg"} : tensor<4x64xf32>
    %1 = autopar.dot_general %0, %w1 contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %2 = autopar.dot_general %1, %w2 contract [1] x [0] {autopar.id = "narrow"} : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
    %3 = autopar.dot_general %2, %w3 contract [1] x [0] {autopar.id = "wide"} : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %4 = autopar.dot_general %3, %w1 contract [1] x [0] {autopar.id = "last"} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    return %4 : tensor<4x64xf32>
  }
}

// -----

// What is made of parameters alone lives where it is first needed, as they do; nothing of them is
// sent.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg2: tensor<4x64xf32> {autopar.origin = @w2, autopar.stage = 1 : i64}
// CHECK: autopar.cast %arg2
// CHECK-NOT: autopar.transfer %{{.*}}w2
// CHECK: autopar.transfer %{{.*}} to 1 {autopar.id = "first/to.1"}
// CHECK-NOT: autopar.transfer
module {
  autopar.origin @w1 : tensor<64x4xbf16>
  autopar.origin @w2 : tensor<4x64xf32>
  func.func @main(%x: tensor<4x64xbf16>, %w1: tensor<64x4xbf16> {autopar.origin = @w1}, %w2: tensor<4x64xf32> {autopar.origin = @w2})
                  -> tensor<4x64xbf16> {
    %0 = autopar.cast %w2 {autopar.id = "w2/bf16"} : tensor<4x64xf32> -> tensor<4x64xbf16>
    %1 = autopar.dot_general %x, %w1 contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xbf16>, tensor<64x4xbf16>) -> tensor<4x4xbf16>
    %2 = autopar.dot_general %1, %0 contract [1] x [0] {autopar.id = "second"} : (tensor<4x4xbf16>, tensor<4x64xbf16>) -> tensor<4x64xbf16>
    return %2 : tensor<4x64xbf16>
  }
}

// -----

module {
  autopar.origin @w : tensor<4xf32>
  // expected-error @+1 {{has 1 operations to put on 2 pipeline stages; expected at least one for each}}
  func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32> {autopar.origin = @w}) -> tensor<4xf32> {
    %0 = autopar.binary add %x, %w {autopar.id = "sum"} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module {
  // expected-error @+1 {{argument "w" is on stage 5 of 2}}
  func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.stage = 5 : i64}) -> tensor<4xf32> {
    %0 = autopar.binary add %x, %w {autopar.id = "sum"} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
