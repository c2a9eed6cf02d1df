// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-from-shard

shard.grid @grid(shape = 2x2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'shard.broadcast' op has no equal in AutoPar}}
  %0 = shard.broadcast %x on @grid grid_axes = [0] root = [0] : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The verifier of the shard dialect speaks first.
shard.grid @grid(shape = 2x2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{0-based grid axis index 5 is out of bounds. The referenced grid "grid" is of rank 2}}
  %0 = shard.all_reduce %x on @grid grid_axes = [5] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

shard.grid @grid(shape = 2x2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'shard.all_reduce' op has a reduction that AutoPar has no equal for}}
  %0 = shard.all_reduce %x on @grid grid_axes = [0] reduction = average : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
