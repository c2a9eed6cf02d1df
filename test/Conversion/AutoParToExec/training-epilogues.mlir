// RUN: autopar-opt %s --autopar-narrow-epilogues --autopar-expand-gradients=target=cuda --autopar-split-reductions --autopar-form-fusion-groups=target=cuda --autopar-to-exec=target=cuda --split-input-file | FileCheck %s

// A second result of a product is its aux; bytes count it.
// CHECK: exec.matmul %{{.*}}, %{{.*}} -> %[[Y:.*]] aux %[[X:.*]] scratch %{{.*}} <{{.*}}epilogue = gelu_tanh_aux> {{.*}}bytes = 1664
// CHECK: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} residual %[[X]] scratch %{{.*}} <{{.*}}epilogue = gelu_tanh_grad>
// CHECK-NOT: exec.launch
func.func @main(%x: tensor<8x24xbf16> {autopar.name = "x"}, %w: tensor<24x16xbf16> {autopar.name = "w"}, %g: tensor<8x24xbf16> {autopar.name = "g"})
    -> (tensor<8x16xbf16> {autopar.name = "y"}, tensor<8x16xbf16> {autopar.name = "d"}) {
  %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %1 = autopar.unary gelu_tanh %0 {autopar.id = "gelu"} : tensor<8x16xbf16>
  %2 = autopar.dot_general %g, %w contract [1] x [0] {autopar.id = "fc/vjp"} : (tensor<8x24xbf16>, tensor<24x16xbf16>) -> tensor<8x16xbf16>
  %3 = autopar.unary_grad gelu_tanh %0, %2 {autopar.id = "gelu/vjp"} : tensor<8x16xbf16>
  return %1, %3 : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// -----

// A mask has rows of its own, whatever comes behind the result.
// CHECK: %[[M:.*]] = exec.buffer {{.*}} bytes 128 : tensor<2x4x16xi8>
// CHECK: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} aux %[[M]] bias %{{.*}} scratch %{{.*}} <{{.*}}biasType = bf16, epilogue = relu_aux>
// CHECK: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} residual %[[M]] scratch %{{.*}} <{{.*}}epilogue = relu_grad>
// CHECK-NOT: exec.launch
func.func @main(%x: tensor<2x4x16xbf16> {autopar.name = "x"}, %w: tensor<16x24xbf16> {autopar.name = "w"}, %b: tensor<24xbf16> {autopar.name = "b"},
                %g: tensor<8x16xbf16> {autopar.name = "g"}) -> (tensor<2x4x24xbf16> {autopar.name = "y"}, tensor<8x24xbf16> {autopar.name = "d"}) {
  %0 = autopar.dot_general %x, %w contract [2] x [0] {autopar.id = "fc"} : (tensor<2x4x16xbf16>, tensor<16x24xbf16>) -> tensor<2x4x24xbf16>
  %1 = autopar.broadcast %b dims [2] : tensor<24xbf16> -> tensor<2x4x24xbf16>
  %2 = autopar.binary add %0, %1 : tensor<2x4x24xbf16>
  %3 = autopar.unary relu %2 {autopar.id = "relu"} : tensor<2x4x24xbf16>
  %4 = autopar.reshape %3 : tensor<2x4x24xbf16> -> tensor<8x24xbf16>
  %5 = autopar.dot_general %g, %w contract [1] x [0] {autopar.id = "fc/vjp"} : (tensor<8x16xbf16>, tensor<16x24xbf16>) -> tensor<8x24xbf16>
  %6 = autopar.unary_grad relu %4, %5 {autopar.id = "relu/vjp"} : tensor<8x24xbf16>
  return %3, %6 : tensor<2x4x24xbf16>, tensor<8x24xbf16>
}

// -----

// The sum of either side; what is summed up lies as the library wants it, and is copied where it does not.
// CHECK: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} aux %{{.*}} scratch %{{.*}} <{{.*}}c = <f32[24, 16] strides[16, 1]>, epilogue = sums_of_b>
// CHECK-NEXT: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} aux %{{.*}} scratch %{{.*}} <a = <bf16[16, 1024] strides[1, 16]>{{.*}}epilogue = sums_of_a>
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.matmul %{{.*}}, %{{.*}} -> %{{.*}} aux %{{.*}} scratch %{{.*}} <a = <bf16[16, 1024] strides[1, 16]>{{.*}}epilogue = sums_of_a>
// CHECK-NOT: exec.launch
func.func @main(%x: tensor<1024x24xbf16> {autopar.name = "x"}, %g: tensor<1024x16xbf16> {autopar.name = "g"}, %h: tensor<1024x16xbf16> {autopar.name = "h"},
                %t: tensor<16x1024xbf16> {autopar.name = "t"})
    -> (tensor<16xf32> {autopar.name = "0"}, tensor<24x16xf32> {autopar.name = "1"}, tensor<16xf32> {autopar.name = "2"}, tensor<16x24xf32> {autopar.name = "3"},
        tensor<16xf32> {autopar.name = "4"}, tensor<16x24xf32> {autopar.name = "5"}) {
  %0 = autopar.cast %g : tensor<1024x16xbf16> -> tensor<1024x16xf32>
  %1 = autopar.reduce sum %0 dims [0] {autopar.id = "b"} : tensor<1024x16xf32> -> tensor<16xf32>
  %2 = autopar.dot_general %x, %g contract [0] x [0] {autopar.id = "w"} : (tensor<1024x24xbf16>, tensor<1024x16xbf16>) -> tensor<24x16xf32>
  %3 = autopar.cast %h : tensor<1024x16xbf16> -> tensor<1024x16xf32>
  %4 = autopar.reduce sum %3 dims [0] {autopar.id = "b1"} : tensor<1024x16xf32> -> tensor<16xf32>
  %5 = autopar.dot_general %h, %x contract [0] x [0] {autopar.id = "w1"} : (tensor<1024x16xbf16>, tensor<1024x24xbf16>) -> tensor<16x24xf32>
  %6 = autopar.cast %t : tensor<16x1024xbf16> -> tensor<16x1024xf32>
  %7 = autopar.reduce sum %6 dims [1] {autopar.id = "b2"} : tensor<16x1024xf32> -> tensor<16xf32>
  %8 = autopar.dot_general %t, %x contract [1] x [0] {autopar.id = "w2"} : (tensor<16x1024xbf16>, tensor<1024x24xbf16>) -> tensor<16x24xf32>
  return %1, %2, %4, %5, %7, %8 : tensor<16xf32>, tensor<24x16xf32>, tensor<16xf32>, tensor<16x24xf32>, tensor<16xf32>, tensor<16x24xf32>
}
