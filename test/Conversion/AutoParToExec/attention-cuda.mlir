// RUN: autopar-opt %s --autopar-to-exec="target=cuda" | FileCheck %s

// A GPU's library reads rows from multiples of 16 bytes on: what lies otherwise is copied first, what
// merely lies apart is not. Scratch of the forward pass is 256 bytes. Rows of a bias may start anywhere.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.attention({{.*}}scratch %{{.*}} <[<bf16[1, 2, 8, 8] strides[384, 24, 48, 1]>
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.attention({{.*}}<[<bf16[1, 2, 8, 8] strides[128, 64, 8, 1]>
// CHECK-NEXT: exec.attention({{.*}}bias = <f32[1, 2, 8, 9] strides[72, 0, 9, 1]>
func.func @main(%x: tensor<1x8x2x24xbf16> {autopar.name = "x"}, %z: tensor<1x8x2x12xbf16> {autopar.name = "z"},
                %k: tensor<1x2x8x8xbf16> {autopar.name = "k"}, %m9: tensor<1x2x9x8xbf16> {autopar.name = "m9"}, %mask: tensor<1x1x8x9xf32> {autopar.name = "mask"})
    -> (tensor<1x2x8x8xbf16> {autopar.name = "y"}, tensor<1x2x8x8xbf16> {autopar.name = "w"}, tensor<1x2x8x8xbf16> {autopar.name = "v"}) {
  %a = autopar.slice %x starts [0, 0, 0, 8] steps [1, 1, 1, 1] : tensor<1x8x2x24xbf16> -> tensor<1x8x2x8xbf16>
  %q = autopar.transpose %a permutation [0, 2, 1, 3] : tensor<1x8x2x8xbf16> -> tensor<1x2x8x8xbf16>
  %y, %l = autopar.attention %q, %k, %k scale 2.500000e-01 causal {autopar.id = "aligned"} : (tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>) -> (tensor<1x2x8x8xbf16>, tensor<1x2x8xf32>)
  %b = autopar.slice %z starts [0, 0, 0, 4] steps [1, 1, 1, 1] : tensor<1x8x2x12xbf16> -> tensor<1x8x2x8xbf16>
  %p = autopar.transpose %b permutation [0, 2, 1, 3] : tensor<1x8x2x8xbf16> -> tensor<1x2x8x8xbf16>
  %w, %m = autopar.attention %p, %k, %k scale 2.500000e-01 causal {autopar.id = "odd"} : (tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>) -> (tensor<1x2x8x8xbf16>, tensor<1x2x8xf32>)
  %v, %n = autopar.attention %k, %m9, %m9 bias %mask scale 2.500000e-01 {autopar.id = "biased"} : (tensor<1x2x8x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x1x8x9xf32>) -> (tensor<1x2x8x8xbf16>, tensor<1x2x8xf32>)
  return %y, %w, %v : tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>
}
