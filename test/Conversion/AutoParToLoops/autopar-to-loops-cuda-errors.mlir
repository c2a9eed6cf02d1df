// RUN: autopar-opt %s --verify-diagnostics --autopar-to-loops=target=cuda

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x4x16xf32>) -> tensor<8x64xf32> {
  // expected-error @+1 {{'autopar.block_dot' op has a kernel for CPUs alone}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xui8>, tensor<4x4x16xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}
