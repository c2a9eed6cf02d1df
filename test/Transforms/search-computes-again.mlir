// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux1 memory-limit=18000000" 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux1 memory-limit=18000000 computes-again=cheap" | FileCheck %s
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux1 computes-again=some" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// Three results of 4 MiB wait for the backward pass. The search that knows that they are computed again finds a plan, whose peak is still that
// of a step that keeps them.
// KEPT: error: no plan found
// CHECK: peak_bytes\22:[20971520]
// UNKNOWN: error: computes-again: expected nothing, cheap or layers, got "some"
func.func @main(%x: tensor<1024x1024xf32> {autopar.name = "x"}, %g: tensor<1024x1024xf32> {autopar.name = "g"}) -> (tensor<1024x1024xf32> {autopar.name = "y"}) {
  %a = autopar.unary exp %x {autopar.id = "a"} : tensor<1024x1024xf32>
  %b = autopar.unary tanh %x {autopar.id = "b"} : tensor<1024x1024xf32>
  %c = autopar.unary neg %x {autopar.id = "c"} : tensor<1024x1024xf32>
  %0 = autopar.dot_general %g, %c contract [1] x [0] {autopar.id = "c/vjp"} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "b/vjp"} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %2 = autopar.dot_general %1, %a contract [1] x [0] {autopar.id = "a/vjp"} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %2 : tensor<1024x1024xf32>
}
