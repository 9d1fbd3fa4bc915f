"""Labels + raw confidences -> a calibrator; a calibrated probability -> a tier; and how good either is.

arrays: what is checked on its way in. logistic: the curves in use, and how they are fitted. scores,
reliability: how good probabilities are. tiers, certificates: from a probability to a tier.
validation: folds and intervals. calibrators: fitted curves in files, and the choice between them.

Usable on its own, as is lsp_calib.confidence: pure functions, arrays in, frozen results out, numpy alone at
run time. lsp_calib.studies has what else the papers compare with (`measures`, `statistics`, `figures`).

    fit = functools.partial(PlattCalibrator.fit, prior=LOOSE_PRIOR)
    # t, chosen inside the training folds:
    chosen = select_first_t(log_probabilities, correct, groups=projects, fit=fit)
    calibrator = fit(raw, correct)                # works from 0 labels on
    probability = calibrator.predict(raw)
    skill_score(chosen.confidence, correct)       # out of fold: what to publish
    certify(probability_held_out, correct_held_out, risk=0.1, delta=0.1)  # a threshold, or the reason

Few labels need a prior, and a caller names it: `LOOSE_PRIOR` is for scores that may be off by several nats,
as those of code models are; the shipped calibrators use it. A metric that is undefined or not informative
warns (`CalibrationWarning`, with n and the reason): one class, all confidences in one bin. tests/validity
checks the guarantees on simulated data whose truth is known; tests/unit holds the metrics against
scikit-learn and scipy, and against vectors made once with netcal and torchmetrics (tests/golden).
"""
