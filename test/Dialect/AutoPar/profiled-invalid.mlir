// RUN: autopar-opt %s -split-input-file -verify-diagnostics

#fc = #autopar.profile<"fc", extent = 2, choices = [#autopar.profile_choice<"columns", inputs = [-1], outputs = [0], weight = true, included = false>],
    sizes = [4, 1, -1, 100, 7, 9], times = [10.0, 11.0, 9.0]>
func.func @samples_without_choices(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expects its saved value to have a dimension of samples and one for each of 1 choices}}
  %y, %s, %w = autopar.profiled %x by #fc : (tensor<4x8xf32>) -> (tensor<4x32xf32>, tensor<4xi8>, tensor<4x2xi8>)
  return
}

// -----

#fc = #autopar.profile<"fc", extent = 2, choices = [#autopar.profile_choice<"columns", inputs = [-1], outputs = [0], weight = true, included = false>],
    sizes = [4, 1, -1, 100, 7, 9], times = [10.0, 11.0, 9.0]>
func.func @other_outputs(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{has other inputs and outputs than choice "columns" of its profile}}
  %y:2, %s, %w = autopar.profiled %x by #fc : (tensor<4x8xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x2xi8>, tensor<4x2xi8>)
  return
}

// -----

#fc = #autopar.profile<"fc", extent = 2, choices = [], sizes = [4, 1, -1, 100, 7, 9], times = [10.0, 11.0, 9.0]>
func.func @gradients_of_others(%dy: tensor<4x8xf32>, %s: tensor<4xi8>) {
  // expected-error @+1 {{gives 1 gradients of 2 inputs}}
  %dx, %w = autopar.profiled_backward %dy saved %s by #fc inputs [0, 1] : (tensor<4x8xf32>, tensor<4xi8>) -> (tensor<4x8xf32>, tensor<4xi8>)
  return
}

// -----

// expected-error @+1 {{profile of "fc": expected rows of 6 sizes and as many of 3 times}}
#fc = #autopar.profile<"fc", extent = 2, choices = [], sizes = [4, 1, -1, 100, 7], times = [10.0, 11.0, 9.0]>

// -----

// expected-error @+1 {{profile of "fc": row 0 has no such choice}}
#fc = #autopar.profile<"fc", extent = 2, choices = [], sizes = [4, 2, 0, 100, 7, 9], times = [10.0, 11.0, 9.0]>

// -----

// expected-error @+1 {{profile of "fc": expected a positive extent}}
#fc = #autopar.profile<"fc", extent = 0, choices = [], sizes = [4, 1, -1, 100, 7, 9], times = [10.0, 11.0, 9.0]>

// -----

// expected-error @+1 {{profile of "fc": expected choices to be #autopar.profile_choice}}
#fc = #autopar.profile<"fc", extent = 1, choices = ["columns"], sizes = [4, 1, -1, 100, 7, 9], times = [10.0, 11.0, 9.0]>
