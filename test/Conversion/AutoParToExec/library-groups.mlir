// RUN: autopar-opt %s --autopar-to-exec=channel-block=1 | FileCheck %s
// RUN: autopar-opt %s --autopar-to-exec=target=cuda | FileCheck %s --check-prefix=CUDA

// Of a group, the library does what its epilogues are; a kernel does the rest: behind a scale, and of a convolution all that is no bias,
// residual or activation. A product is scaled alone. cuBLASLt has no exact gelu.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.matmul {{.*}} scale = 5.000000e-01
// CHECK-NEXT: exec.launch @{{.*}} id = "scaled"
// CHECK-NEXT: exec.matmul {{.*}} bias %{{.*}} epilogue = gelu_erf
// CHECK-NEXT: exec.convolution
// CHECK-NOT: bias
// CHECK: exec.launch @{{.*}} id = "spread"
// CUDA: exec.entry @step
// CUDA: exec.matmul {{.*}} bias %{{[^<]*}}<{{[^>]*}}>{{[^>]*}}>{{[^>]*}}>, biasType = f32> {{.*}} id = "activated"
// CUDA-NEXT: exec.launch @{{.*}} id = "activated"
func.func @main(%x: tensor<8x16xf32> {autopar.name = "x"}, %w: tensor<16x32xf32> {autopar.name = "w"}, %b: tensor<32xf32> {autopar.name = "b"},
                %i: tensor<1x8x6x6xf32> {autopar.name = "i"}, %f: tensor<8x8x3x3xf32> {autopar.name = "f"})
    -> (tensor<8x32xf32>, tensor<8x32xf32>, tensor<1x8x6x6xf32>) {
  %scaled = autopar.group %x, %w, %b {autopar.id = "scaled"} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x16xf32>, %gw: tensor<16x32xf32>, %gb: tensor<32xf32>):
    %0 = autopar.dot_general %gx, %gw contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %half = autopar.constant dense<0.5> : tensor<8x32xf32>
    %1 = autopar.binary mul %0, %half : tensor<8x32xf32>
    %2 = autopar.broadcast %gb dims [1] : tensor<32xf32> -> tensor<8x32xf32>
    %3 = autopar.binary add %1, %2 : tensor<8x32xf32>
    autopar.yield %3 : tensor<8x32xf32>
  }
  %activated = autopar.group %x, %w, %b {autopar.id = "activated"} : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> {
  ^bb0(%gx: tensor<8x16xf32>, %gw: tensor<16x32xf32>, %gb: tensor<32xf32>):
    %0 = autopar.dot_general %gx, %gw contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = autopar.broadcast %gb dims [1] : tensor<32xf32> -> tensor<8x32xf32>
    %2 = autopar.binary add %0, %1 : tensor<8x32xf32>
    %3 = autopar.unary gelu %2 : tensor<8x32xf32>
    autopar.yield %3 : tensor<8x32xf32>
  }
  %spread = autopar.group %i, %f {autopar.id = "spread"} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32> {
  ^bb0(%gi: tensor<1x8x6x6xf32>, %gf: tensor<8x8x3x3xf32>):
    %0 = autopar.convolution %gi, %gf {strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
    %half = autopar.constant dense<0.5> : tensor<1x8x6x6xf32>
    %1 = autopar.binary mul %0, %half : tensor<1x8x6x6xf32>
    autopar.yield %1 : tensor<1x8x6x6xf32>
  }
  return %scaled, %activated, %spread : tensor<8x32xf32>, tensor<8x32xf32>, tensor<1x8x6x6xf32>
}
