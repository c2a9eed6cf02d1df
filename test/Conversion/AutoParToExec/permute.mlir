// RUN: autopar-opt %s --split-input-file --autopar-to-exec --verify-diagnostics | FileCheck %s

// A permutation is a pair of ranks, to and from, in the table of each; so is the number of a position.
// CHECK: exec.permute %{{.*}} -> %{{.*}} permutation 0 bytes 16 {{.*}}queue communication
// CHECK: exec.permute %{{.*}} -> %{{.*}} permutation 1 bytes 16
// CHECK: exec.permute %{{.*}} -> %{{.*}} permutation 0 bytes 16
// CHECK: exec.rank 0 of @class0 groups [] values [5, 0, 0, 0, 0, 0, 0, 0] {{.*}}permutations = [array<i32: 0, 0>, array<i32: 2, 4>]
// CHECK: exec.rank 1 of @class0 groups [] values [5, 0, 0, 0, 0, 0, 0, 0] {{.*}}permutations = [array<i32: 1, 1>, array<i32: 3, 5>]
// CHECK: exec.rank 2 of @class0 groups [] values [1, 0, 0, 0, 0, 0, 0, 0] {{.*}}permutations = [array<i32: 4, 4>, array<i32: 4, 0>]
// CHECK: exec.rank 5 of @class0 groups [] values [3, 0, 0, 0, 0, 0, 0, 0] {{.*}}permutations = [array<i32: 3, 3>, array<i32: 1, 3>]
autopar.mesh @mesh ["c" = 3, "t" = 2]
func.func @main(%x: tensor<4xf32> {autopar.name = "x"})
    -> (tensor<4xf32> {autopar.name = "a"}, tensor<4xf32> {autopar.name = "b"}, tensor<4xf32> {autopar.name = "c"}, tensor<i64> {autopar.name = "i"}) {
  %a = autopar.permute %x from [0, 2, 1] over @mesh ["c"] : tensor<4xf32>
  %b = autopar.permute %x from [2, 0, 1] over @mesh ["c"] : tensor<4xf32>
  %c = autopar.permute %b from [0, 2, 1] over @mesh ["c"] : tensor<4xf32>
  %i = autopar.shard_index @mesh ["c"] numbers [5, 1, 3] : tensor<i64>
  return %a, %b, %c, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'autopar.permute' op names the mesh @none, which does not exist}}
  %a = autopar.permute %x from [0, 1] over @none ["c"] : tensor<4xf32>
  return %a : tensor<4xf32>
}
