// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=sgd(lr=0.1)" | FileCheck %s

// Derivatives read what a normalization yielded as computed again from its input, which they read
// anyway; the forward pass keeps its own.

autopar.origin @w : tensor<8xf32>
autopar.origin @v : tensor<8xf32>

// CHECK: %[[X:.*]] = autopar.binary mul {{.*}}"scaled"
// CHECK-NEXT: %[[N:.*]] = autopar.normalize %[[X]] dims [1]
// CHECK: autopar.binary mul %[[N]], {{.*}}"y"
// CHECK-NOT: %[[N]]
// CHECK: %[[AGAIN:.*]] = autopar.normalize_again %[[X]] dims [1] epsilon 1.0{{.*}}{autopar.id = "norm/vjp.again", autopar.phase = "backward"}
// CHECK: autopar.binary mul %{{.*}}, %[[AGAIN]]
// CHECK: autopar.normalize_grad %[[X]], %[[AGAIN]],
func.func @main(%x: tensor<4x8xf32> {autopar.name = "x"},
                %w: tensor<8xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"},
                %v: tensor<8xf32> {autopar.name = "v", autopar.origin = @v, autopar.trainable = "decay"})
    -> (tensor<4x8xf32> {autopar.name = "y"}) {
  %rows = autopar.broadcast %v dims [1] {autopar.id = "rows"} : tensor<8xf32> -> tensor<4x8xf32>
  %scaled = autopar.binary mul %x, %rows {autopar.id = "scaled"} : tensor<4x8xf32>
  %norm = autopar.normalize %scaled dims [1] epsilon 1.0e-05 {autopar.id = "norm"} : tensor<4x8xf32>
  %scale = autopar.broadcast %w dims [1] {autopar.id = "scale"} : tensor<8xf32> -> tensor<4x8xf32>
  %y = autopar.binary mul %norm, %scale {autopar.id = "y"} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

