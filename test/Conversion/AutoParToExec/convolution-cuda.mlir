// RUN: autopar-opt %s --autopar-to-exec=target=cuda | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-convolution-gradients="mode=auto target=cuda" --autopar-to-exec=target=cuda | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-convolution-gradients="mode=kernels target=cuda" --autopar-to-exec="target=cuda convolutions=kernels" | FileCheck %s --check-prefix=KERNELS
// RUN: not autopar-opt %s --autopar-to-exec="convolutions=some" 2>&1 | FileCheck %s --check-prefix=MODE

// On GPUs a convolution is a call on tensors as they lie, and what follows it a kernel; gradients are calls as well.
// A spread input is a kernel.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.convolution %[[X:.*]], %[[W:.*]] -> %[[Y:.*]] scratch %{{.*}} <x = tensor<1x8x6x6xf32>, w = tensor<8x8x3x3xf32>, y = tensor<1x8x6x6xf32>, strides = [1, 1], padsBegin = [1, 1], padsEnd = [1, 1], dilations = [1, 1]>
// CHECK-NEXT: exec.launch {{.*}}%[[Y]]
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.convolution %[[G:.*]], %[[W]] -> %{{.*}} scratch %{{.*}} <x = tensor<1x8x6x6xf32>, w = tensor<8x8x3x3xf32>, y = tensor<1x8x6x6xf32>, {{.*}}, kind = input_gradient>
// CHECK-NEXT: exec.convolution %[[X]], %[[G]] -> %{{.*}} scratch %{{.*}} <x = tensor<1x8x6x6xf32>, w = tensor<1x8x6x6xf32>, y = tensor<8x8x3x3xf32>, {{.*}}, kind = filter_gradient>
// CHECK-NOT: exec.convolution

// KERNELS: exec.entry @step
// KERNELS-NOT: exec.convolution

// MODE: convolutions: expected auto or kernels, got "some"
func.func @main(%x: tensor<1x8x6x6xf32> {autopar.name = "x"}, %w: tensor<8x8x3x3xf32> {autopar.name = "w"},
                %b: tensor<8xf32> {autopar.name = "b"}, %u: tensor<4x8x2x2xf32> {autopar.name = "u"}, %g: tensor<1x8x6x6xf32> {autopar.name = "g"})
    -> (tensor<1x4x12x12xf32> {autopar.name = "y"}, tensor<1x8x6x6xf32> {autopar.name = "dx"}, tensor<8x8x3x3xf32> {autopar.name = "dw"}) {
  %h = autopar.group %x, %w, %b {autopar.id = "conv"} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>, tensor<8xf32>) -> tensor<1x8x6x6xf32> {
  ^bb0(%gx: tensor<1x8x6x6xf32>, %gw: tensor<8x8x3x3xf32>, %gb: tensor<8xf32>):
    %0 = autopar.convolution %gx, %gw {strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
    %1 = autopar.broadcast %gb dims [1] : tensor<8xf32> -> tensor<1x8x6x6xf32>
    %2 = autopar.binary add %0, %1 : tensor<1x8x6x6xf32>
    %3 = autopar.unary relu %2 : tensor<1x8x6x6xf32>
    autopar.yield %3 : tensor<1x8x6x6xf32>
  }
  %y = autopar.convolution %h, %u {autopar.id = "up", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 2, 2>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<4x8x2x2xf32>) -> tensor<1x4x12x12xf32>
  %dx = autopar.convolution_input_grad %g, %w {autopar.id = "dx", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
  %dw = autopar.convolution_filter_grad %x, %g {autopar.id = "dw", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32>) -> tensor<8x8x3x3xf32>
  return %y, %dx, %dw : tensor<1x4x12x12xf32>, tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>
}
