// RUN: not autopar-opt %s --autopar-search="mesh=data2" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not autopar-opt %s --autopar-search="mesh=a=2/b=2" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not autopar-opt %s --autopar-search="mesh=a=2147483647" 2>&1 | FileCheck %s --check-prefix=MOST
// RUN: not autopar-opt %s --autopar-search="mesh=a=9223372036854775807,b=9223372036854775807" 2>&1 | FileCheck %s --check-prefix=PRODUCT

// NAME: error: mesh "data2": expected name=size, got "data2"
// COUNT: error: mesh "a=2/b=2" is 2 meshes, the stages have 1
// MOST: error: mesh "a=2147483647": expected at most 262144 ranks
// PRODUCT: error: mesh "a=9223372036854775807,b=9223372036854775807": expected at most 262144 ranks
autopar.cluster @cluster "presets:cpux2"
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = autopar.unary exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
