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

// -----

autopar.mesh @mesh ["t" = 2]
// expected-error @+1 {{'func.func' op argument 0 is not a ranked tensor}}
func.func @main(%x: i64) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has several blocks; expected one}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-remark @+1 {{'tensor.insert_slice' has no sharding rule and is replicated}}
  %y = tensor.insert_slice %x into %x [0] [8] [1] : tensor<8xf32> into tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'autopar.unary' op has an illegal strategy: strategy of 2 factors for a rule of 1}}
  %y = autopar.unary neg %x {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{'autopar.unary' op has an illegal strategy: axis "t" is used twice}}
  %y = autopar.unary neg %x {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {"t"}]>} : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<3x8xf32>) -> tensor<24xf32> {
  // expected-error @+1 {{'autopar.reshape' op has an illegal strategy: a dimension made of several factors would not be contiguous}}
  %y = autopar.reshape %x {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}]>} : tensor<3x8xf32> -> tensor<24xf32>
  return %y : tensor<24xf32>
}
