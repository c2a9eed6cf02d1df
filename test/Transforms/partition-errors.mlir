// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-partition

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{operand 0 is 'tensor<8xf32>' on each rank, but the strategy asks for 'tensor<4xf32>'; run autopar-insert-reshards first}}
  %y = autopar.unary neg %x {autopar.strategy = #autopar.strategy<@mesh, [{"t"}]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}]>}) {
  // expected-error @+1 {{result 0 is 'tensor<8xf32>' on each rank, but its sharding asks for 'tensor<4xf32>'; run autopar-insert-reshards first}}
  return %x : tensor<8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]
// expected-error @+1 {{'func.func' op argument 0 is not a ranked tensor}}
func.func @main(%x: i64) {
  return
}

// -----

autopar.mesh @mesh ["t" = 2]
// expected-error @+1 {{'func.func' op has several blocks; expected one}}
func.func @main(%x: tensor<8xf32>, %c: tensor<i1>) -> tensor<8xf32> {
  %isOne = tensor.extract %c[] : tensor<i1>
  cf.cond_br %isOne, ^one, ^other
^one:
  %0 = autopar.unary exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
^other:
  return %x : tensor<8xf32>
}
