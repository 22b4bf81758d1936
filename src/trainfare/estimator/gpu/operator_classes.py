"""The class of work that an operator does, by its name in a profiler: TensorFlow's, or PyTorch's `aten::` names.

Operators of one class are limited by the same resource on every GPU, so they speed up alike from one GPU to another.
The backward pass has its own classes where it runs other kernels. A name that is not listed is in class `other`.
"""

from collections.abc import Mapping

CONVOLUTION = ("convolution", "convolution_filter", "convolution_input")
"""Forward, and backward towards the weights and towards the input."""
COPY = "copy"
OTHER = "other"

CLASSES: Mapping[str, tuple[str, ...]] = {
    "convolution": ("Conv2D", "_FusedConv2D", "Conv1D", "Conv3D", "aten::conv2d", "aten::convolution",
                    "aten::_convolution", "aten::cudnn_convolution", "aten::miopen_convolution"),
    "convolution_filter": ("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "aten::convolution_backward",
                           "aten::cudnn_convolution_backward", "aten::cudnn_convolution_backward_weight"),
    "convolution_input": ("Conv2DBackpropInput", "Conv3DBackpropInputV2", "aten::cudnn_convolution_backward_input",
                          "aten::conv_transpose2d", "aten::cudnn_convolution_transpose"),
    "depthwise": ("DepthwiseConv2dNative", "_FusedDepthwiseConv2dNative", "aten::_conv_depthwise2d"),
    "depthwise_backward": ("DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput",
                           "aten::_conv_depthwise2d_backward"),
    "matmul": ("MatMul", "_FusedMatMul", "BatchMatMul", "BatchMatMulV2", "Einsum", "aten::mm", "aten::bmm",
               "aten::addmm", "aten::linear", "aten::matmul", "aten::baddbmm",
               "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention",
               "aten::_scaled_dot_product_flash_attention_backward",
               "aten::_scaled_dot_product_efficient_attention_backward", "aten::_cudnn_rnn",
               "aten::_cudnn_rnn_backward"),
    "normalisation": ("FusedBatchNormV3", "FusedBatchNorm", "_FusedBatchNormEx", "aten::batch_norm",
                      "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::native_layer_norm",
                      "aten::native_group_norm"),
    "normalisation_backward": ("FusedBatchNormGradV3", "FusedBatchNormGrad", "aten::native_batch_norm_backward",
                               "aten::cudnn_batch_norm_backward", "aten::native_layer_norm_backward",
                               "aten::native_group_norm_backward"),
    "pooling": ("MaxPool", "AvgPool", "aten::max_pool2d", "aten::max_pool2d_with_indices", "aten::avg_pool2d",
                "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d"),
    "pooling_backward": ("MaxPoolGrad", "AvgPoolGrad", "aten::max_pool2d_with_indices_backward",
                         "aten::avg_pool2d_backward", "aten::_adaptive_avg_pool2d_backward"),
    "pointwise": ("Relu", "ReluGrad", "Relu6", "Relu6Grad", "Mul", "Add", "AddV2", "AddN", "BiasAdd", "Sub", "Neg",
                  "RealDiv", "Square", "SquaredDifference", "Rsqrt", "RsqrtGrad", "GreaterEqual", "RandomUniform",
                  "Slice", "Sigmoid", "SigmoidGrad", "Tanh", "TanhGrad", "Select", "SelectV2", "aten::relu",
                  "aten::relu_", "aten::threshold_backward", "aten::clamp_min", "aten::clamp_min_", "aten::hardtanh",
                  "aten::hardtanh_", "aten::hardtanh_backward", "aten::add", "aten::add_", "aten::mul", "aten::mul_",
                  "aten::sub", "aten::div", "aten::gelu", "aten::gelu_backward", "aten::silu", "aten::silu_",
                  "aten::silu_backward", "aten::sigmoid", "aten::sigmoid_backward", "aten::tanh",
                  "aten::tanh_backward", "aten::native_dropout", "aten::native_dropout_backward", "aten::pow"),
    "reduction": ("BiasAddGrad", "Sum", "Mean", "Max", "aten::sum", "aten::mean", "aten::amax"),
    "layout": ("Transpose", "Pad", "PadV2", "Tile", "ConcatV2", "Concat", "BroadcastTo", "StridedSlice",
               "StridedSliceGrad", "GatherV2", "DynamicStitch", "aten::cat", "aten::contiguous", "aten::clone",
               "aten::constant_pad_nd", "aten::fill_", "aten::zero_", "aten::embedding",
               "aten::embedding_dense_backward", "aten::index_select"),
    "optimizer": ("ResourceApplyGradientDescent", "ResourceApplyKerasMomentum", "ResourceApplyMomentum",
                  "ResourceApplyAdam", "ResourceApplyRMSProp", "AssignSubVariableOp", "aten::_foreach_add_",
                  "aten::_foreach_mul_", "aten::_foreach_addcmul_", "aten::_foreach_addcdiv_", "aten::_foreach_sqrt",
                  "aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_sgd_", "aten::addcmul_",
                  "aten::addcdiv_"),
    "loss": ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "Softmax", "LogSoftmax",
             "ArgMax", "Cast", "AssignAddVariableOp", "DivNoNan", "Equal", "LogicalAnd", "aten::_log_softmax",
             "aten::_log_softmax_backward_data", "aten::_softmax", "aten::_softmax_backward_data",
             "aten::nll_loss_forward", "aten::nll_loss_backward", "aten::argmax", "aten::eq"),
    COPY: ("_Send", "_Recv", "_HostSend", "_HostRecv", "MEMCPYHtoD", "MEMCPYDtoH", "aten::to", "aten::_to_copy",
           "aten::copy_", "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)",
           "Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pinned)"),
}  # fmt: skip

_CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names}


def class_of(operator: str) -> str:
    return _CLASS_OF.get(operator, OTHER)


def seconds_by_class(seconds: Mapping[str, float]) -> dict[str, float]:
    """The sum over the operators of each class; a class without time is absent."""
    sums: dict[str, float] = {}
    for operator, operator_seconds in seconds.items():
        if operator_seconds > 0:
            kind = class_of(operator)
            sums[kind] = sums.get(kind, 0.0) + operator_seconds
    return sums
