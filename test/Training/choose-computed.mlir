// What an exporter computed goes by the names of what it was computed from.
//
// RUN: autopar-opt %s --autopar-choose-trainable 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: autopar-opt %s --autopar-choose-trainable="train-only=*lora_*" 2>&1 | FileCheck %s --check-prefix=LORA
// RUN: autopar-opt %s --autopar-choose-trainable="train-only=*" 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: autopar-opt %s --autopar-choose-trainable="freeze=*.weight_v" 2>&1 | FileCheck %s --check-prefix=FREEZE

// RULE: remark: trains 2 parameters, 24 numbers
// RULE-NEXT: trained: val_* (of layers.*.lora_A.weight), val_* (of head.weight_g and head.weight_v)
// RULE-NEXT: nobody knows: val_* (of lora_B and permute)
// RULE: warning: 1 tensor is trained as the exporter computed it from what its source trains: val_3 (of head.weight_g and head.weight_v); export with torch.onnx.export(..., dynamo=True, optimize=False) to train that

// LORA: remark: trains 2 parameters, 16 numbers
// LORA-NEXT: trained: val_* (of layers.*.lora_A.weight), val_* (of lora_B and permute)
// LORA-NEXT: not among those to be trained: val_* (of head.weight_g and head.weight_v)
// LORA-NOT: warning
// LORA: %arg1: tensor<4x2xf32> {autopar.computed_from = ["layers.0.lora_A.weight"], autopar.name = "val_1", autopar.origin = @a, autopar.trainable = "decay", autopar.transpose_of = "layers.0.lora_A.weight"}

// FREEZE: frozen by name: val_* (of head.weight_g and head.weight_v)
autopar.origin @a : tensor<4x2xf32>
autopar.origin @b : tensor<2x4xf32>
autopar.origin @c : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %a: tensor<4x2xf32> {autopar.name = "val_1", autopar.origin = @a, autopar.computed_from = ["layers.0.lora_A.weight"], autopar.transpose_of = "layers.0.lora_A.weight"},
                %b: tensor<2x4xf32> {autopar.name = "val_2", autopar.origin = @b, autopar.computed_from = ["lora_B", "permute"], autopar.fixed = "nobody knows"},
                %c: tensor<4x4xf32> {autopar.name = "val_3", autopar.origin = @c, autopar.computed_from = ["head.weight_g", "head.weight_v"]}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}
