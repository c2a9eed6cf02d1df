// RUN: autopar-opt %s --autopar-expand-gradients | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-gradients=target=cuda | FileCheck %s --check-prefix=CUDA
// RUN: not autopar-opt %s --autopar-expand-gradients=activations=some 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not autopar-opt %s --autopar-expand-gradients="target=tpu" 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: unknown target "tpu"; expected cpu or cuda
// MODE: unknown mode "some"; expected auto or kernels
// What takes a gradient's place has its name and phase; constants of one number are one.

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: (%[[Y:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<4x8xf32>)
func.func @softmax(%y: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[P:.*]] = autopar.binary mul %[[G]], %[[Y]] {autopar.phase = "backward"}
  // CHECK: %[[S:.*]] = autopar.reduce sum %[[P]] dims [1] {autopar.phase
  // CHECK: %[[R:.*]] = autopar.broadcast %[[S]] dims [0] {autopar.phase
  // CHECK: %[[C:.*]] = autopar.binary sub %[[G]], %[[R]] {autopar.phase
  // CHECK: autopar.binary mul %[[Y]], %[[C]] {autopar.id = "s/vjp.0", autopar.phase = "backward"}
  %0 = autopar.softmax_grad %y, %g dim 1 {autopar.id = "s/vjp.0", autopar.phase = "backward"} : tensor<4x8xf32>
  // CHECK-DAG: %[[T:.*]] = autopar.reduce sum %[[G]] dims [1]
  // CHECK-DAG: %[[U:.*]] = autopar.broadcast %[[T]] dims [0]
  // CHECK-DAG: %[[E:.*]] = autopar.unary exp %[[Y]]
  // CHECK: %[[M:.*]] = autopar.binary mul %[[E]], %[[U]]
  // CHECK: autopar.binary sub %[[G]], %[[M]]
  %1 = autopar.softmax_grad %y, %g dim 1 log : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Statistics of narrow floats are computed in f32.
// CHECK-LABEL: func.func @normalize
// CHECK: autopar.unary rsqrt %{{.*}} : tensor<4xf32>
// CHECK-COUNT-2: autopar.cast %{{.*}} : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK: %[[D:.*]] = autopar.cast %{{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: return %[[D]]
func.func @normalize(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>, %g: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = autopar.normalize_grad %x, %y, %g dims [1] epsilon 1.0e-05 : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// What a normalization yielded and its derivative take the statistics of their rows from each other.
// CHECK-LABEL: func.func @statistics(
// CHECK-COUNT-2: autopar.reduce sum {{.*}}dims [1]
// CHECK: %[[R:.*]] = autopar.broadcast %{{.*}} dims [0] {autopar.phase = "backward"}
// CHECK: %[[Y:.*]] = autopar.binary mul %[[CENTERED:.*]], %[[R]] {autopar.id = "n/again", autopar.phase = "backward"}
// CHECK-COUNT-2: autopar.reduce sum
// CHECK-NOT: autopar.reduce
// CHECK: autopar.binary mul %[[R]]
func.func @statistics(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = autopar.normalize_again %x dims [1] epsilon 1.0e-05 {autopar.id = "n/again", autopar.phase = "backward"} : tensor<4x8xf32>
  %1 = autopar.normalize_grad %x, %0, %g dims [1] epsilon 1.0e-05 {autopar.id = "n/vjp.0", autopar.phase = "backward"} : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @activations
// CHECK-COUNT-7: autopar.constant dense
// CHECK-NOT: autopar.constant
// CHECK: autopar.unary tanh
// CHECK-NOT: autopar.unary
func.func @activations(%x: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %0 = autopar.unary_grad gelu_tanh %x, %g : tensor<8xf32>
  %1 = autopar.unary_grad gelu_tanh %x, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// At its result, 0 where that is.
// CHECK-LABEL: func.func @relu
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<8xf32>, %[[G:[a-z0-9]+]]: tensor<8xf32>
// CHECK: %[[P:.*]] = autopar.compare gt %[[Y]], %[[Z:.*]] :
// CHECK: autopar.select %[[P]], %[[G]], %[[Z]]
func.func @relu(%y: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %0 = autopar.unary_grad relu %y, %g : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Behind a product whose library call can take it, on GPUs: of multiples of eight, in half precision.
// CHECK-LABEL: func.func @behind_products
// CHECK-NOT: unary_grad
// CUDA-LABEL: func.func @behind_products
// CUDA: autopar.unary_grad gelu_tanh %{{.*}} : tensor<2x8x16xbf16>
// CUDA-NOT: unary_grad
func.func @behind_products(%x: tensor<2x8x16xbf16>, %y: tensor<16x16xf32>, %z: tensor<16x12xbf16>, %a: tensor<16x24xbf16>, %b: tensor<24x16xbf16>,
                           %c: tensor<16x24xf32>, %d: tensor<24x16xf32>, %e: tensor<24x12xbf16>)
    -> (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<16x16xf32>, tensor<16x12xbf16>) {
  %0 = autopar.dot_general %a, %b contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %1 = autopar.reshape %0 : tensor<16x16xbf16> -> tensor<2x8x16xbf16>
  %2 = autopar.unary_grad gelu_tanh %x, %1 : tensor<2x8x16xbf16>
  // The exact one, f32, and columns that are no multiple of eight.
  %3 = autopar.dot_general %a, %b contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x16xbf16>) -> tensor<16x16xbf16>
  %4 = autopar.reshape %3 : tensor<16x16xbf16> -> tensor<2x8x16xbf16>
  %5 = autopar.unary_grad gelu %x, %4 : tensor<2x8x16xbf16>
  %6 = autopar.dot_general %c, %d contract [1] x [0] : (tensor<16x24xf32>, tensor<24x16xf32>) -> tensor<16x16xf32>
  %7 = autopar.unary_grad gelu_tanh %y, %6 : tensor<16x16xf32>
  %8 = autopar.dot_general %a, %e contract [1] x [0] : (tensor<16x24xbf16>, tensor<24x12xbf16>) -> tensor<16x12xbf16>
  %9 = autopar.unary_grad gelu_tanh %z, %8 : tensor<16x12xbf16>
  return %2, %5, %7, %9 : tensor<2x8x16xbf16>, tensor<2x8x16xbf16>, tensor<16x16xf32>, tensor<16x12xbf16>
}
