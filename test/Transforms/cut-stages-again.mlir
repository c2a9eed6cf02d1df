// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='norm: stage 0,scaled: stage 1'" | FileCheck %s --check-prefixes=CHECK,NARROW
// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='norm: stage 0,wide: stage 0,scaled: stage 1'" | FileCheck %s --check-prefixes=CHECK,WIDE

// A normalization that derivatives compute again is on the stage of its operation. Derivatives on
// the next stage read what the forward pass has there: nothing goes forwards behind it.
// CHECK: %[[NORM:.*]] = autopar.normalize {{.*}}"norm"
// CHECK: %[[SENT:.*]] = autopar.transfer %[[NORM]] to 1 {autopar.id = "norm/to.1"}
// NARROW: %[[READ:.*]] = autopar.cast %[[SENT]] {autopar.id = "wide"}
// WIDE: %[[READ:.*]] = autopar.cast %[[SENT]] {autopar.id = "wide/to.1"}
// CHECK-NOT: to 1
// CHECK-DAG: %[[AGAIN:.*]] = autopar.normalize_again {{.*}}"norm/vjp.again"
// CHECK-DAG: autopar.binary mul %{{.*}}, %[[READ]] {autopar.id = "scaled/vjp.1"}
// CHECK: autopar.normalize_grad %{{.*}}, %[[AGAIN]],
module {
  autopar.origin @w : tensor<8x8xf32>
  autopar.origin @v : tensor<4x8xf32>
  func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {autopar.origin = @w}, %v: tensor<4x8xf32> {autopar.origin = @v})
      -> (tensor<4x8xf32>, tensor<4x8xbf16>) {
    %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "first"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = autopar.cast %0 {autopar.id = "narrow"} : tensor<4x8xf32> -> tensor<4x8xbf16>
    %2 = autopar.normalize %1 dims [1] epsilon 1.0e-05 {autopar.id = "norm"} : tensor<4x8xbf16>
    %3 = autopar.cast %2 {autopar.id = "wide"} : tensor<4x8xbf16> -> tensor<4x8xf32>
    %4 = autopar.binary mul %3, %v {autopar.id = "scaled"} : tensor<4x8xf32>
    %5 = autopar.binary mul %4, %v {autopar.id = "scaled/vjp.0"} : tensor<4x8xf32>
    %6 = autopar.cast %5 {autopar.id = "wide/vjp.0"} : tensor<4x8xf32> -> tensor<4x8xbf16>
    %7 = autopar.normalize_again %1 dims [1] epsilon 1.0e-05 {autopar.id = "norm/vjp.again"} : tensor<4x8xbf16>
    %8 = autopar.cast %7 {autopar.id = "wide/vjp.again"} : tensor<4x8xbf16> -> tensor<4x8xf32>
    %9 = autopar.binary mul %5, %8 {autopar.id = "scaled/vjp.1"} : tensor<4x8xf32>
    %10 = autopar.normalize_grad %1, %7, %6 dims [1] epsilon 1.0e-05 {autopar.id = "norm/vjp.0"} : tensor<4x8xbf16>
    return %9, %10 : tensor<4x8xf32>, tensor<4x8xbf16>
  }
}
