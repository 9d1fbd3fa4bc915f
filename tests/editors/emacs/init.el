;;; init.el --- What the tests and the picture start Emacs with: the shipped file and little else  -*- lexical-binding: t; -*-

;; LSP_CALIB_CLIENT: eglot, rass (Eglot, with ruff beside lsp-calib) or lsp-mode.

(setq inhibit-startup-screen t
      make-backup-files nil
      auto-save-default nil
      create-lockfiles nil
      suggest-key-bindings nil
      ring-bell-function #'ignore
      ;; No browser: the test looks at what would be opened.
      browse-url-browser-function (lambda (url &rest _) (message "Opened: %s" url))
      eglot-events-buffer-config '(:size 0 :format short))
(menu-bar-mode -1)
(let ((here (file-name-directory load-file-name)))
  (load (expand-file-name "../../../editor-configs/emacs/lsp-calib.el" here) nil t))

(pcase (getenv "LSP_CALIB_CLIENT")
  ("lsp-mode"
   (setq lsp-auto-guess-root t
         lsp-session-file (expand-file-name "session" user-emacs-directory)
         lsp-warn-no-matched-clients nil
         lsp-enabled-clients '(lsp-calib)
         lsp-inline-completion-idle-delay 0.2)
   (load "lsp-mode-autoloads" nil t) ; a package manager does
   (require 'lsp-mode)
   (add-hook 'python-mode-hook #'lsp))
  (client
   (if (equal client "rass") (lsp-calib-eglot 'python-base-mode "ruff" "server") (lsp-calib-eglot 'python-base-mode))
   (add-hook 'python-mode-hook #'eglot-ensure)
   (add-hook 'eglot-managed-mode-hook #'lsp-calib-preview-mode)
   (with-eval-after-load 'flymake (setq flymake-no-changes-timeout 0.2))))
;;; init.el ends here
