// RUN: autopar-opt %s --verify-diagnostics --pass-pipeline="builtin.module(func.func(autopar-form-fusion-groups))"

// expected-error @+1 {{expected one block: region operations must be lowered before}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
^unreachable:
  return %x : tensor<8xf32>
}
