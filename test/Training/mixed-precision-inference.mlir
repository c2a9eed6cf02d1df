// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16 inference" --canonicalize | FileCheck %s
// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16" --canonicalize | FileCheck %s --check-prefix=TRAINING

// A norm with its scale and bias is rounded once, where others read it; what two read is rounded where it is made.

// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = autopar.normalize {{.*}} : tensor<4x8xf32>
// CHECK-NEXT: %[[S:.*]] = autopar.broadcast
// CHECK-NEXT: %[[M:.*]] = autopar.binary mul %[[N]], %[[S]] {{.*}} : tensor<4x8xf32>
// CHECK-NEXT: %[[B:.*]] = autopar.broadcast
// CHECK-NEXT: %[[A:.*]] = autopar.binary add %[[M]], %[[B]] {{.*}} : tensor<4x8xf32>
// CHECK-NEXT: %[[R:.*]] = autopar.cast %[[A]] {{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: autopar.dot_general %[[R]]
// CHECK: %[[O:.*]] = autopar.normalize
// CHECK-NEXT: autopar.cast %[[O]] {{.*}} -> tensor<4x8xbf16>
// TRAINING-LABEL: func.func @main
// TRAINING: %[[N:.*]] = autopar.normalize {{.*}} : tensor<4x8xf32>
// TRAINING-NEXT: autopar.cast %[[N]] {{.*}} -> tensor<4x8xbf16>
func.func @main(%x: tensor<4x8xf32> {autopar.name = "x"}, %w: tensor<8x8xf32> {autopar.name = "w"}, %s: tensor<8xf32> {autopar.name = "s"},
                %b: tensor<8xf32> {autopar.name = "b"}) -> (tensor<4x8xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "first"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %n = autopar.normalize %h dims [1] epsilon 1.0e-05 {autopar.id = "norm"} : tensor<4x8xf32>
  %sb = autopar.broadcast %s dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %m = autopar.binary mul %n, %sb {autopar.id = "scale"} : tensor<4x8xf32>
  %bb = autopar.broadcast %b dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %a = autopar.binary add %m, %bb {autopar.id = "bias"} : tensor<4x8xf32>
  %g = autopar.dot_general %a, %w contract [1] x [0] {autopar.id = "second"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %o = autopar.normalize %g dims [1] epsilon 1.0e-05 {autopar.id = "other"} : tensor<4x8xf32>
  %p = autopar.binary mul %o, %sb {autopar.id = "one"} : tensor<4x8xf32>
  %q = autopar.binary mul %o, %p {autopar.id = "two"} : tensor<4x8xf32>
  %y = autopar.dot_general %q, %w contract [1] x [0] {autopar.id = "third"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
