// RUN: autopar-opt %s --autopar-to-exec="target=cuda" | FileCheck %s

// A GPU's library reads rows from multiples of 16 bytes on: what lies otherwise is copied first, what
// merely lies apart is not. Scratch of the forward pass is 256 bytes.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.attention({{.*}}scratch %{{.*}} <[<bf16[1, 2, 8, 8] strides[384, 24, 48, 1]>
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.attention({{.*}}<[<bf16[1, 2, 8, 8] strides[128, 64, 8, 1]>
func.func @main(%x: tensor<1x8x2x24xbf16> {autopar.name = "x"}, %z: tensor<1x8x2x12xbf16> {autopar.name = "z"},
                %k: tensor<1x2x8x8xbf16> {autopar.name = "k"})
    -> (tensor<1x2x8x8xbf16> {autopar.name = "y"}, tensor<1x2x8x8xbf16> {autopar.name = "w"}) {
  %a = autopar.slice %x starts [0, 0, 0, 8] steps [1, 1, 1, 1] : tensor<1x8x2x24xbf16> -> tensor<1x8x2x8xbf16>
  %q = autopar.transpose %a permutation [0, 2, 1, 3] : tensor<1x8x2x8xbf16> -> tensor<1x2x8x8xbf16>
  %y, %l = autopar.attention %q, %k, %k scale 2.500000e-01 causal {autopar.id = "aligned"} : (tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>) -> (tensor<1x2x8x8xbf16>, tensor<1x2x8xf32>)
  %b = autopar.slice %z starts [0, 0, 0, 4] steps [1, 1, 1, 1] : tensor<1x8x2x12xbf16> -> tensor<1x8x2x8xbf16>
  %p = autopar.transpose %b permutation [0, 2, 1, 3] : tensor<1x8x2x8xbf16> -> tensor<1x2x8x8xbf16>
  %w, %m = autopar.attention %p, %k, %k scale 2.500000e-01 causal {autopar.id = "odd"} : (tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>) -> (tensor<1x2x8x8xbf16>, tensor<1x2x8xf32>)
  return %y, %w : tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>
}
