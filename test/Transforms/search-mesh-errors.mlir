// RUN: not autopar-opt %s --autopar-search="mesh=data2" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not autopar-opt %s --autopar-search="mesh=a=2/b=2" 2>&1 | FileCheck %s --check-prefix=COUNT

// NAME: error: mesh "data2": expected name=size, got "data2"
// COUNT: error: mesh "a=2/b=2" is 2 meshes, the stages have 1
autopar.cluster @cluster "presets:cpux2"
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = autopar.unary exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
