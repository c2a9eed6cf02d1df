// RUN: autopar-opt %s --verify-diagnostics --autopar-part-experts=parts=3
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux2 mesh=e=2 constraints='expert-axis=e'" 2>&1 | FileCheck %s

// A search does not part mixtures.

// CHECK: no product with a parameter per expert can be split over axis "e"; mixtures without capacity are parted before shardings are searched: demand the mesh too, from the phase prepare on
autopar.origin @u : tensor<4x16x16xf32>
func.func @main(%x: tensor<6x16xf32> {autopar.name = "x"}, %e: tensor<6xi64> {autopar.name = "e"}, %u: tensor<4x16x16xf32> {autopar.name = "u", autopar.origin = @u}) -> tensor<6x16xf32> {
  // expected-error @+1 {{'autopar.grouped_dot' op has 4 experts, which 3 ranks cannot share evenly: expected a divisor of 4}}
  %0 = autopar.grouped_dot %x, %u, %e {autopar.id = "a"} : (tensor<6x16xf32>, tensor<4x16x16xf32>, tensor<6xi64>) -> tensor<6x16xf32>
  return %0 : tensor<6x16xf32>
}
