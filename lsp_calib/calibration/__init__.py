"""Labels + raw confidences -> a calibrator; a calibrated probability -> a tier; and how good either is.

arrays: what is checked on its way in. logistic: the curves in use, and how they are fitted. scores,
reliability: how good probabilities are. tiers, certificates: from a probability to a tier.
validation: folds and intervals. calibrators: fitted curves in files, and the choice between them.
"""
