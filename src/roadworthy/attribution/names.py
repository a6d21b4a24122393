"""What attribution methods are called elsewhere, so that such a name is answered with ours."""

from __future__ import annotations

ELSEWHERE = {
    **dict.fromkeys(("integratedgradients", "integratedgradient", "intgrad"), "ig"),
    **dict.fromkeys(("saliency", "gradient", "gradients", "vanillagradient", "vanilla", "backprop"), "grad"),
    **dict.fromkeys(("inputxgradient", "inputgradient", "gradienttimesinput", "gradientxinput", "gxi"), "ixg"),
    **dict.fromkeys(("smoothgrad", "sg", "smoothgradient"), "grad-sg"),
    **dict.fromkeys(("smoothgradsquared", "smoothgradsq", "squaregrad"), "grad-sq"),
    **dict.fromkeys(("vargrad",), "grad-var"),
    **dict.fromkeys(("guidedbackprop", "guidedbackpropagation", "gbp"), "gb"),
    **dict.fromkeys(("layergradcam", "cam"), "gradcam"),
    **dict.fromkeys(("shap", "kernelshapley", "shapley"), "kernel-shap"),
    **dict.fromkeys(("expectedgradients", "gradshap"), "gradient-shap"),
    **dict.fromkeys(("deepliftshap", "deepshap", "rescale"), "deeplift"),
    **dict.fromkeys(("layerwiserelevancepropagation", "epsilonlrp", "lrpepsilon"), "lrp"),
    **dict.fromkeys(("featureablation", "slidingwindow"), "occlusion"),
    **dict.fromkeys(("edges", "edge", "edgedetector"), "sobel"),
    **dict.fromkeys(("noise", "uniform"), "random"),
}
"""Names in small letters and digits alone; some are relatives, the nearest that is here."""
