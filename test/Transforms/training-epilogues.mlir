// RUN: autopar-opt %s --autopar-narrow-epilogues --autopar-expand-gradients=target=cuda --autopar-split-reductions --autopar-form-fusion-groups=target=cuda --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-narrow-epilogues=activations=kernels --autopar-expand-gradients="target=cuda activations=kernels" --autopar-split-reductions=biases=kernels --autopar-form-fusion-groups="target=cuda activations=kernels" --split-input-file | FileCheck %s --check-prefix=KERNELS
// RUN: not autopar-opt %s --autopar-split-reductions=biases=some 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not autopar-opt %s --autopar-form-fusion-groups=activations=some 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: unknown mode "some"; expected auto or kernels

// A gelu whose gradient reads what it was given: the product makes both.
// CHECK-LABEL: func.func @gelu
// CHECK: %[[P:.*]]:2 = autopar.group {{.*}} -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: autopar.dot_general
// CHECK-NEXT: autopar.broadcast
// CHECK-NEXT: %[[X:.*]] = autopar.binary add
// CHECK-NEXT: %[[Y:.*]] = autopar.unary gelu_tanh %[[X]] {{.*}} : tensor<8x16xbf16>
// CHECK-NEXT: autopar.yield %[[X]], %[[Y]]
// CHECK: autopar.group %{{.*}}, %[[P]]#0
// CHECK: autopar.unary_grad gelu_tanh %{{.*}} : tensor<8x16xbf16>
// CHECK: return %[[P]]#1
// KERNELS-LABEL: func.func @gelu
// KERNELS: autopar.group {{.*}} -> tensor<8x16xbf16> {
// KERNELS: autopar.unary gelu_tanh {{.*}} : tensor<8x16xf32>
func.func @gelu(%x: tensor<8x24xbf16>, %w: tensor<24x16xbf16>, %b: tensor<16xf32>, %g: tensor<8x24xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %1 = autopar.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = autopar.broadcast %b dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %3 = autopar.binary add %1, %2 : tensor<8x16xf32>
  %4 = autopar.cast %3 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %5 = autopar.cast %4 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %6 = autopar.unary gelu_tanh %5 {autopar.id = "gelu"} : tensor<8x16xf32>
  %7 = autopar.cast %6 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %8 = autopar.dot_general %g, %w contract [1] x [0] : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %9 = autopar.cast %8 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %10 = autopar.unary_grad gelu_tanh %5, %9 : tensor<8x16xf32>
  %11 = autopar.cast %10 : tensor<8x16xf32> -> tensor<8x16xbf16>
  return %7, %11 : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// -----

// What a plan computes again without the product stays a kernel.
// CHECK-LABEL: func.func @again
// CHECK: autopar.group {{.*}} -> tensor<8x16xbf16> {
// CHECK: autopar.group {{.*}} -> tensor<8x16xbf16> {
// CHECK: autopar.unary gelu_tanh {{.*}} : tensor<8x16xf32>
func.func @again(%x: tensor<8x24xbf16>, %w: tensor<24x16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>) attributes {autopar.recompute = ["gelu"]} {
  %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %1 = autopar.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = autopar.unary gelu_tanh %1 {autopar.id = "gelu"} : tensor<8x16xf32>
  %3 = autopar.cast %2 : tensor<8x16xf32> -> tensor<8x16xbf16>
  return %0, %3 : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// -----

// A relu behind a product is applied by it anyway; where another product multiplies by its derivative, the mask lies beside.
// CHECK-LABEL: func.func @relu
// CHECK: %[[P:.*]]:2 = autopar.group {{.*}} -> (tensor<2x4x24xbf16>, tensor<2x4x16xi8>) {
// CHECK: %[[Y:.*]] = autopar.unary relu
// CHECK-NEXT: %[[M:.*]] = autopar.mark_positive %[[Y]] {{.*}} : tensor<2x4x24xbf16> -> tensor<2x4x16xi8>
// CHECK-NEXT: autopar.yield %[[Y]], %[[M]]
// CHECK: %[[R:.*]] = autopar.reshape %[[P]]#1 : tensor<2x4x16xi8> -> tensor<8x16xi8>
// CHECK: autopar.group %{{.*}}, %[[R]]
// CHECK: autopar.keep_marked %{{.*}} where %{{.*}} : tensor<8x24xbf16>, tensor<8x16xi8>
// KERNELS-LABEL: func.func @relu
// KERNELS: autopar.unary relu
// KERNELS-NOT: mark_positive
// KERNELS: autopar.compare gt
func.func @relu(%x: tensor<2x4x16xbf16>, %w: tensor<16x24xbf16>, %g: tensor<8x16xbf16>) -> (tensor<2x4x24xbf16>, tensor<8x24xbf16>) {
  %0 = autopar.dot_general %x, %w contract [2] x [0] : (tensor<2x4x16xbf16>, tensor<16x24xbf16>) -> tensor<2x4x24xbf16>
  %1 = autopar.unary relu %0 {autopar.id = "relu"} : tensor<2x4x24xbf16>
  %2 = autopar.reshape %1 : tensor<2x4x24xbf16> -> tensor<8x24xbf16>
  %3 = autopar.dot_general %g, %w contract [1] x [0] : (tensor<8x16xbf16>, tensor<16x24xbf16>) -> tensor<8x24xbf16>
  %4 = autopar.unary_grad relu %2, %3 : tensor<8x24xbf16>
  return %1, %4 : tensor<2x4x24xbf16>, tensor<8x24xbf16>
}

// -----

// A relu that no product applies: its gradient is a kernel.
// CHECK-LABEL: func.func @no_mask
// CHECK-NOT: mark_positive
// CHECK: autopar.compare gt
func.func @no_mask(%y: tensor<8x24xbf16>, %w: tensor<16x24xbf16>, %g: tensor<8x16xbf16>) -> tensor<8x24xbf16> {
  %3 = autopar.dot_general %g, %w contract [1] x [0] : (tensor<8x16xbf16>, tensor<16x24xbf16>) -> tensor<8x24xbf16>
  %4 = autopar.unary_grad relu %y, %3 : tensor<8x24xbf16>
  return %4 : tensor<8x24xbf16>
}

// -----

// The gradient of a bias is made by the product that makes the weight's, and not divided. It may be read before.
// CHECK-LABEL: func.func @bias
// CHECK: %[[B:.*]]:2 = autopar.group {{.*}} -> (tensor<24x16xf32>, tensor<16xf32>) {
// CHECK: %[[D:.*]] = autopar.dot_general
// CHECK: %[[S:.*]] = autopar.reduce sum %{{.*}} dims [0, 1]
// CHECK: autopar.yield %[[D]], %[[S]]
// CHECK: autopar.group %[[B]]#1
// KERNELS-LABEL: func.func @bias
// KERNELS: autopar.reduce sum {{.*}} -> tensor<{{.*}}x16xf32>
// KERNELS: autopar.reduce sum {{.*}} -> tensor<16xf32>
func.func @bias(%x: tensor<4x1024x24xbf16>, %g: tensor<4x1024x16xbf16>) -> (tensor<16xf32>, tensor<24x16xf32>) {
  %0 = autopar.cast %g : tensor<4x1024x16xbf16> -> tensor<4x1024x16xf32>
  %1 = autopar.reduce sum %0 dims [0, 1] {autopar.id = "b"} : tensor<4x1024x16xf32> -> tensor<16xf32>
  %2 = autopar.unary neg %1 : tensor<16xf32>
  %3 = autopar.dot_general %x, %g contract [0, 1] x [0, 1] {autopar.id = "w"} : (tensor<4x1024x24xbf16>, tensor<4x1024x16xbf16>) -> tensor<24x16xf32>
  return %2, %3 : tensor<16xf32>, tensor<24x16xf32>
}

// -----

// Not of another type than the product's, over other dimensions, of odd rows, or of a product that is scaled.
// CHECK-LABEL: func.func @not_by_products
// CHECK-NOT: autopar.group {{.*}} -> (
func.func @not_by_products(%x: tensor<1024x24xbf16>, %g: tensor<1024x16xbf16>, %o: tensor<1024x15xbf16>)
    -> (tensor<16xf32>, tensor<24x16xbf16>, tensor<1024xf32>, tensor<24x16xf32>, tensor<15xf32>, tensor<24x15xf32>, tensor<24x16xf32>) {
  %0 = autopar.cast %g : tensor<1024x16xbf16> -> tensor<1024x16xf32>
  %1 = autopar.reduce sum %0 dims [0] : tensor<1024x16xf32> -> tensor<16xf32>
  %2 = autopar.dot_general %x, %g contract [0] x [0] : (tensor<1024x24xbf16>, tensor<1024x16xbf16>) -> tensor<24x16xbf16>
  %3 = autopar.reduce sum %0 dims [1] : tensor<1024x16xf32> -> tensor<1024xf32>
  %half = autopar.constant dense<0.5> : tensor<24x16xf32>
  %4 = autopar.dot_general %x, %g contract [0] x [0] : (tensor<1024x24xbf16>, tensor<1024x16xbf16>) -> tensor<24x16xf32>
  %5 = autopar.binary mul %4, %half : tensor<24x16xf32>
  %6 = autopar.cast %o : tensor<1024x15xbf16> -> tensor<1024x15xf32>
  %7 = autopar.reduce sum %6 dims [0] : tensor<1024x15xf32> -> tensor<15xf32>
  %8 = autopar.dot_general %x, %o contract [0] x [0] : (tensor<1024x24xbf16>, tensor<1024x15xbf16>) -> tensor<24x15xf32>
  return %1, %2, %3, %5, %7, %8, %5 : tensor<16xf32>, tensor<24x16xbf16>, tensor<1024xf32>, tensor<24x16xf32>, tensor<15xf32>, tensor<24x15xf32>, tensor<24x16xf32>
}

// -----

// Nor by one that runs on a stage that the sum is not on.
// CHECK-LABEL: func.func @elsewhere
// CHECK: autopar.reduce sum {{.*}} -> tensor<{{.*}}x16xf32>
// CHECK-NOT: -> (tensor<24x16xf32>, tensor<16xf32>) {
func.func @elsewhere(%x: tensor<1024x24xbf16> {autopar.stage = 1 : i64}, %g: tensor<1024x16xbf16>) -> (tensor<16xf32>, tensor<24x16xf32>) {
  %0 = autopar.cast %g : tensor<1024x16xbf16> -> tensor<1024x16xf32>
  %1 = autopar.reduce sum %0 dims [0] : tensor<1024x16xf32> -> tensor<16xf32>
  %2 = autopar.dot_general %x, %g contract [0] x [0] : (tensor<1024x24xbf16>, tensor<1024x16xbf16>) -> tensor<24x16xf32>
  return %1, %2 : tensor<16xf32>, tensor<24x16xf32>
}
