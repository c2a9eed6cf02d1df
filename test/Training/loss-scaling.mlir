// RUN: autopar-opt %s --autopar-mixed-precision="precision=fp16" --autopar-build-training-step="loss=mse(y,target) optimizer=adam loss-scale=dynamic(initial=1024,interval=50)" | FileCheck %s
// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) loss-scale=static(scale=8) clip-norm=1" | FileCheck %s --check-prefix=STATIC

// The scale is a state of the step; cotangents are multiplied by it, gradients divided, and what lasts keeps its value
// where the sum of their squares is no number. Skipped steps do not count for the optimizer.

// CHECK: autopar.formula @adam {
// CHECK: %[[NEXT:.*]] = autopar.select %[[COUNTS:.*]], {{.*}}, %{{.*}} :
// CHECK: %[[NEXTM:.*]] = autopar.select %[[COUNTS]]
// CHECK: %[[NEXTS:.*]] = autopar.select %[[COUNTS]]
// CHECK: autopar.yield %[[NEXT]], %[[NEXTM]], %[[NEXTS]]
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[SKIPPED:arg[0-9]+]]: tensor<i64> {autopar.donated, autopar.name = "loss_scale/skipped_steps"}
// CHECK-SAME: %[[DOUBLINGS:arg[0-9]+]]: tensor<i64> {autopar.donated, autopar.name = "loss_scale/doublings"}
// CHECK-SAME: %[[GOOD:arg[0-9]+]]: tensor<i64> {autopar.donated, autopar.name = "loss_scale/good_steps"}
// CHECK-SAME: %[[MEAN:arg[0-9]+]]: tensor<4x4xf32> {autopar.donated, autopar.name = "w/mean"}
// CHECK-SAME: autopar.name = "loss_scale/good_steps"{{.*}}autopar.evaluated, autopar.guard, autopar.metric, autopar.name = "loss"{{.*}}autopar.name = "loss_scale"{{.*}}autopar.name = "skipped_steps"
// CHECK: %[[E:.*]] = autopar.constant {{.*}} dense<10> : tensor<i64>
// CHECK: %[[SUM:.*]] = autopar.binary add %[[DOUBLINGS]], %[[E]]
// CHECK: %[[SHIFTED:.*]] = autopar.binary shift_left {{.*}}, %[[SUM]]
// CHECK: %[[SCALE:.*]] = autopar.cast %[[SHIFTED]] {{.*}} : tensor<i64> -> tensor<f32>
// CHECK: autopar.binary mul {{.*}} {autopar.id = "loss/vjp"{{.*}} : tensor<f32>
// CHECK: %[[INVERSE:.*]] = autopar.binary div {{.*}}, %[[SCALE]]
// CHECK: %[[G:.*]] = autopar.binary mul {{.*}} {autopar.id = "w/unscale"{{.*}} : tensor<4x4xf32>
// CHECK: %[[SQUARE:.*]] = autopar.reduce sum {{.*}} dims [0, 1]
// CHECK: %[[INF:.*]] = autopar.constant {{.*}} dense<0x7F800000> : tensor<f32>
// CHECK: %[[FINITE:.*]] = autopar.compare lt %[[SQUARE]], %[[INF]]
// CHECK: %[[DONE:.*]] = autopar.cast %[[SKIPPED]] {{.*}} : tensor<i64> -> tensor<f64>
// CHECK: autopar.binary sub {{.*}}, %[[DONE]]
// CHECK: %[[W:.*]]:3 = autopar.update @adam %arg1, %[[MEAN]], {{.*}}, %[[FINITE]] {autopar.id = "w/update"{{.*}}
// CHECK: autopar.binary max {{.*}} : tensor<i64>
// CHECK: return %[[W]]#0, %[[W]]#1, %[[W]]#2

// STATIC: func.func @main{{.*}}autopar.name = "loss_scale/skipped_steps"
// STATIC-NOT: doublings
// STATIC: autopar.constant {{.*}} dense<8.000000e+00> : tensor<f32>
// STATIC: autopar.unary sqrt
// STATIC: autopar.select {{.*}} : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
// STATIC: autopar.update @sgd {{.*}} {autopar.id = "w/update"{{.*}}
autopar.origin @w : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
