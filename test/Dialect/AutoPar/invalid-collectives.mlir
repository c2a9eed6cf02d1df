// RUN: autopar-opt %s --split-input-file --verify-diagnostics

autopar.mesh @m ["c" = 3]
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.permute' op expects each of the 3 positions along ["c"] to be the source of one, got [0, 2, 2]}}
  %y = autopar.permute %x from [0, 2, 2] over @m ["c"] : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

autopar.mesh @m ["c" = 3]
func.func @too_few() -> tensor<i64> {
  // expected-error @+1 {{'autopar.shard_index' op expects a number for each of the 3 positions along ["c"], got [0, 2]}}
  %i = autopar.shard_index @m ["c"] numbers [0, 2] : tensor<i64>
  return %i : tensor<i64>
}
