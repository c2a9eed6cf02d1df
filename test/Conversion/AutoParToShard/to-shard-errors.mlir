// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-to-shard

autopar.mesh @mesh ["t" = 2]
func.func @main() -> tensor<i64> {
  // expected-error @+1 {{feeds more than the slice of a shard, which the shard dialect cannot express}}
  %0 = autopar.shard_index @mesh ["t"] : tensor<i64>
  return %0 : tensor<i64>
}

// -----

module {
  module @inner {
    autopar.mesh @own ["t" = 2]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      // expected-error @+1 {{'autopar.all_reduce' op refers to mesh @own, which is not in this module}}
      %0 = autopar.all_reduce sum %x over @own ["t"] : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}
