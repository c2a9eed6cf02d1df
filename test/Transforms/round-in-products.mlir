// RUN: autopar-opt %s --autopar-round-in-products | FileCheck %s
// RUN: %if avx512 %{ autopar-opt %s --autopar-round-in-products --autopar-to-exec | FileCheck %s --check-prefix=EXEC %}

// A parameter that changes every step is rounded by the products that read it; the kernel is gone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.cast
// CHECK: autopar.group %{{.*}}, %[[W:.*]] {{.*}}tensor<64x64xf32>
// CHECK: autopar.cast
// CHECK: autopar.dot_general
// EXEC-NOT: exec.launch
// EXEC: exec.matmul
// EXEC-SAME: bf16
// EXEC-SAME: f32
func.func @main(%w: tensor<64x64xf32> {autopar.name = "w", autopar.role = "parameter", autopar.donated},
                %x: tensor<32x64xbf16> {autopar.name = "x"})
    -> (tensor<64x64xf32> {autopar.name = "w"}, tensor<32x64xbf16> {autopar.name = "y"}) {
  %r = autopar.group %w {autopar.id = "w/bf16"} : (tensor<64x64xf32>) -> tensor<64x64xbf16> {
  ^bb0(%v: tensor<64x64xf32>):
    %c = autopar.cast %v {autopar.id = "w/bf16"} : tensor<64x64xf32> -> tensor<64x64xbf16>
    autopar.yield %c : tensor<64x64xbf16>
  }
  %y = autopar.group %x, %r {autopar.id = "y"} : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16> {
  ^bb0(%a: tensor<32x64xbf16>, %b: tensor<64x64xbf16>):
    %p = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "y"} : (tensor<32x64xbf16>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
    autopar.yield %p : tensor<32x64xbf16>
  }
  return %w, %y : tensor<64x64xf32>, tensor<32x64xbf16>
}
