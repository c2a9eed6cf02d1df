// RUN: autopar-opt %s --autopar-build-training-step="loss=softmax_cross_entropy(logits,labels,ignore_index=-100) metrics=accuracy(logits,labels),top2=accuracy(logits,labels,top=2,ignore_index=-1)" | FileCheck %s
// RUN: autopar-opt %s --autopar-build-training-step="loss=total metrics=binary_accuracy(logits,target),mae(logits,target),mse(logits,target),again=total" | FileCheck %s --check-prefix=NUMBERS

// A label is among the greatest if few are ahead of it: greater, or equal and before it. The forward pass has them,
// and evaluations tell them. Labels that the loss ignores are ignored.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<4x5xf32> {{.*}}tensor<f32> {autopar.evaluated, autopar.guard, autopar.metric, autopar.name = "loss"}
// CHECK-SAME: tensor<f32> {autopar.evaluated, autopar.metric, autopar.name = "accuracy"}
// CHECK-SAME: tensor<f32> {autopar.evaluated, autopar.metric, autopar.name = "top2"}
// CHECK: autopar.constant {autopar.id = "accuracy/constant{{.*}} dense<-100>
// CHECK: autopar.compare gt %{{.*}} {autopar.id = "accuracy/compare
// CHECK-NOT: autopar.phase = "backward"
// CHECK: autopar.constant {autopar.id = "top2/constant{{.*}} dense<-1>

// NUMBERS-DAG: autopar.name = "binary_accuracy"}
// NUMBERS-DAG: autopar.name = "mae"}
// NUMBERS-DAG: autopar.name = "mse"}
// NUMBERS-DAG: autopar.name = "again"}
// NUMBERS: autopar.unary abs {{.*}}autopar.id = "mae/unary
autopar.origin @w : tensor<4x5xf32>
func.func @main(%x: tensor<2x3x4xf32> {autopar.name = "x"},
                %w: tensor<4x5xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x3x5xf32> {autopar.name = "logits"}, tensor<f32> {autopar.name = "total"}) {
  %y = autopar.dot_general %x, %w contract [2] x [0] {autopar.id = "fc"} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  %t = autopar.reduce sum %y dims [0, 1, 2] {autopar.id = "total"} : tensor<2x3x5xf32> -> tensor<f32>
  return %y, %t : tensor<2x3x5xf32>, tensor<f32>
}
