// RUN: split-file %s %t
// RUN: not autopar-opt %t/m.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=present.*=past})" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not autopar-opt %t/m.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=z=past.0})" 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not autopar-opt %t/m.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=present.*=old.*})" 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not autopar-opt %t/m.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=y=past.0})" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not autopar-opt %t/m.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=present.0=w})" 2>&1 | FileCheck %s --check-prefix=PARAMETER
// RUN: not autopar-opt %t/m.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=present.0=past.0,present.1=past.0})" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not autopar-opt %t/empty.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=a=b})" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not autopar-opt %t/varying.mlir --pass-pipeline="builtin.module(autopar-carry-state{carry=present=past})" 2>&1 | FileCheck %s --check-prefix=VARYING

// VARYING: carry: "past" has a dimension that is bound to a range; what is carried has one extent
// PATTERN: carry: expected OUTPUT=INPUT, with one `*` on both sides or none, such as present.*=past_key_values.*, got "present.*=past"
// OUTPUT: carry: there is no output "z"; the outputs are y, present.0, present.1
// INPUT: carry: output "present.0" goes on as input "old.0", which there is not; the inputs are x, past.0
// TYPE: carry: output "y" is 'tensor<5xf32>' and input "past.0" 'tensor<4xf32>': what is carried keeps its type
// PARAMETER: carry: "w" is a parameter, or is carried already
// TWICE: carry: "past.0" is a parameter, or is carried already
// EMPTY: carry: expected a function @main with a body

//--- m.mlir
autopar.origin @w : tensor<4xf32>
func.func @main(%x: tensor<5xf32> {autopar.name = "x"}, %past: tensor<4xf32> {autopar.name = "past.0"},
                %w: tensor<4xf32> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<5xf32> {autopar.name = "y"}, tensor<4xf32> {autopar.name = "present.0"}, tensor<4xf32> {autopar.name = "present.1"}) {
  return %x, %past, %w : tensor<5xf32>, tensor<4xf32>, tensor<4xf32>
}

//--- empty.mlir
module {}
//--- varying.mlir
func.func @main(%past: tensor<4xf32> {autopar.name = "past", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> (tensor<4xf32> {autopar.name = "present"}) {
  %0 = autopar.unary neg %past : tensor<4xf32>
  return %0 : tensor<4xf32>
}
