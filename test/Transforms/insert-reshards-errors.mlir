// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-insert-reshards

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'autopar.unary' op uses axis "q", which mesh @mesh does not have}}
  %y = autopar.unary neg %x {autopar.strategy = #autopar.strategy<@mesh, [{"q"}]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'autopar.softmax' op has an illegal strategy: factor 0 of extent 8 needs replication}}
  %y = autopar.softmax %x dim 0 {autopar.strategy = #autopar.strategy<@mesh, [{"t"}]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 4]
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{'autopar.unary' op has an illegal strategy: factor 0 of extent 5 leaves a shard of 4 empty}}
  %y = autopar.unary neg %x {autopar.strategy = #autopar.strategy<@mesh, [{"t"}]>} : tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
// expected-note @-1 {{the first one is here}}
// expected-error @+1 {{'autopar.mesh' op is a second mesh; expected one per module}}
autopar.mesh @other ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
