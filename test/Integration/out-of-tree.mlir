// A project outside this tree finds the installed package and calls buildAutoShardPipeline.
// REQUIRES: plugin
// RUN: rm -rf %t && cmake --install %autopar_build --prefix %t/install > %t.log
// RUN: cmake -G Ninja -S %S/Inputs/out-of-tree -B %t/build -DCMAKE_PREFIX_PATH=%t/install -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_C_COMPILER=clang-22 -DCMAKE_BUILD_TYPE=Debug >> %t.log
// RUN: cmake --build %t/build >> %t.log
// RUN: %t/build/guest %s | FileCheck %s

// CHECK: autopar.mesh @mesh ["x" = 2]
// CHECK: linalg.matmul
func.func @main(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
  %y = linalg.matmul ins(%x, %w : tensor<512x512xf32>, tensor<512x512xf32>) outs(%z : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %y : tensor<512x512xf32>
}
