// RUN: autopar-opt %s --verify-diagnostics --autopar-to-shard

autopar.mesh @mesh ["t" = 2]
func.func @main() -> tensor<i64> {
  // expected-error @+1 {{feeds more than the slice of a shard, which the shard dialect cannot express}}
  %0 = autopar.shard_index @mesh ["t"] : tensor<i64>
  return %0 : tensor<i64>
}
