// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=muon(steps=2,adamw_lr=1e-4) clip-norm=1" 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=muon(ema=0.9)" 2>&1 | FileCheck %s --check-prefix=EMA

// Inner matrices follow Muon: alone, with columns in several dimensions, several that are read one by one, and transposed or tied as long as all products take them alike.
// The output matrix, an embedding, a scale and what is both a table and a matrix follow AdamW.

// REMARK: remark: muon updates 4 matrices, adamw the other 4 parameters

// CHECK: autopar.formula @muon {
// CHECK: autopar.formula @muon_direction {
// CHECK-NEXT: ^bb0(%[[M:.*]]: tensor<f32>, %[[G:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>):
// CHECK-NEXT: autopar.binary mul %[[G]], %[[C]]

// CHECK: autopar.formula @adamw {

// CHECK-LABEL: func.func @main(
// CHECK: autopar.binary mul %arg{{[0-9]+}}, %{{.*}} {autopar.id = "optimizer/binary{{.*}} : tensor<f64>

// The momentum first, element by element; then products over the longer dimension; then the parameter.

// CHECK: %[[D:.*]]:2 = autopar.update @muon_direction %{{.*}}, %{{.*}}, %[[CLIP:.*]] {autopar.id = "up/update/update", autopar.phase = "update"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: autopar.reduce sum {{.*}} dims [0, 1] {{.*}} : tensor<4x8xf32> -> tensor<f32>
// CHECK: %[[GRAM:.*]] = autopar.dot_general %[[X:.*]], %[[X]] contract [1] x [1] {{.*}}phase = "update"{{.*}} -> tensor<4x4xf32>
// CHECK: autopar.dot_general %[[GRAM]], %[[GRAM]] contract [1] x [0] {{.*}} -> tensor<4x4xf32>
// CHECK: autopar.dot_general {{.*}}, %[[X]] contract [1] x [0] {{.*}} -> tensor<4x8xf32>
// CHECK: autopar.update @muon %{{.*}}, %{{.*}}, %{{[^,]*}} {autopar.id = "up/update", autopar.phase = "update"} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>

// CHECK: autopar.update @muon_direction {{.*}}"fused/update/update"
// CHECK: autopar.dot_general {{.*}} contract [1, 2] x [1, 2] {{.*}} -> tensor<8x8xf32>
// CHECK: autopar.dot_general {{.*}} contract [1] x [0] {{.*}} -> tensor<8x2x4xf32>
// CHECK: autopar.update @muon {{.*}}"fused/update"
// CHECK: autopar.update @muon {{.*}}"twice/update"
// CHECK: autopar.dot_general {{.*}} batch [0] x [0] contract [2] x [2] {{.*}} -> tensor<2x4x4xf32>
// CHECK: autopar.update @muon {{.*}}"stack/update"
// CHECK-NOT: autopar.update @muon

// EMA: autopar.update @muon_direction {{.*}}"up/update/update"
// EMA: %{{.*}}:2 = autopar.update @muon {{.*}}"up/update"
// EMA: %{{.*}}:4 = autopar.update @adamw {{.*}}"out/update"

func.func @main(%rows: tensor<6x1xi64> {autopar.name = "rows"},
                %table: tensor<5x4xf32> {autopar.name = "table", autopar.origin = @table, autopar.trainable = "decay"},
                %up: tensor<4x8xf32> {autopar.name = "up", autopar.origin = @up, autopar.trainable = "decay"},
                %fused: tensor<8x2x4xf32> {autopar.name = "fused", autopar.origin = @fused, autopar.trainable = "decay"},
                %twice: tensor<4x4xf32> {autopar.name = "twice", autopar.origin = @twice, autopar.trainable = "decay"},
                %both: tensor<4x4xf32> {autopar.name = "both", autopar.origin = @both, autopar.trainable = "decay"},
                %scale: tensor<6x4xf32> {autopar.name = "scale", autopar.origin = @scale, autopar.trainable = "decay"},
                %stack: tensor<2x4x4xf32> {autopar.name = "stack", autopar.origin = @stack, autopar.trainable = "decay"},
                %out: tensor<4x3xf32> {autopar.name = "out", autopar.origin = @out, autopar.trainable = "decay"})
    -> (tensor<6x3xf32> {autopar.name = "y"}) {
  %x = autopar.gather %table, %rows dims [0] batch 0 : (tensor<5x4xf32>, tensor<6x1xi64>) -> tensor<6x4xf32>
  %h = autopar.dot_general %x, %up contract [1] x [0] : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %p = autopar.dot_general %h, %fused contract [1] x [0] : (tensor<6x8xf32>, tensor<8x2x4xf32>) -> tensor<6x2x4xf32>
  %a = autopar.slice %p starts [0, 0, 0] steps [1, 1, 1] : tensor<6x2x4xf32> -> tensor<6x1x4xf32>
  %b = autopar.reshape %a : tensor<6x1x4xf32> -> tensor<6x4xf32>
  %turned = autopar.transpose %twice permutation [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %c = autopar.dot_general %b, %twice contract [1] x [0] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %d = autopar.dot_general %c, %turned contract [1] x [1] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %e = autopar.dot_general %d, %both contract [1] x [0] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %f = autopar.dot_general %e, %both contract [1] x [1] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %s0 = autopar.slice %stack starts [0, 0, 0] steps [1, 1, 1] : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %s1 = autopar.slice %stack starts [1, 0, 0] steps [1, 1, 1] : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %e0 = autopar.reshape %s0 : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %e1 = autopar.reshape %s1 : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %f0 = autopar.dot_general %f, %e0 contract [1] x [0] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %f1 = autopar.dot_general %f0, %e1 contract [1] x [0] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %g = autopar.binary mul %f1, %scale : tensor<6x4xf32>
  %y = autopar.dot_general %g, %out contract [1] x [0] : (tensor<6x4xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  return %y : tensor<6x3xf32>
}
autopar.origin @table : tensor<5x4xf32>
autopar.origin @up : tensor<4x8xf32>
autopar.origin @fused : tensor<8x2x4xf32>
autopar.origin @twice : tensor<4x4xf32>
autopar.origin @both : tensor<4x4xf32>
autopar.origin @scale : tensor<6x4xf32>
autopar.origin @stack : tensor<2x4x4xf32>
autopar.origin @out : tensor<4x3xf32>
